/** What most screens use, as one file: the build adds it to every chunk, or a page would fetch a dozen small ones. */
import "./core";
import "./map";
import "./widgets";
