/** Which part of a drawing is in sight: pan, zoom about a point, fit. All in pixels of the view. */

export interface Camera {
  x: number;
  y: number;
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

export const LEAST_SCALE = 0.1;
export const MOST_SCALE = 2.5;

/** The whole drawing in the middle of the view, never larger than life. */
export function fit(drawing: Size, view: Size, margin = 16): Camera {
  const scale = Math.min(
    1,
    (view.width - 2 * margin) / Math.max(1, drawing.width),
    (view.height - 2 * margin) / Math.max(1, drawing.height),
  );
  const bounded = Math.max(LEAST_SCALE, scale);
  return {
    scale: bounded,
    x: (view.width - drawing.width * bounded) / 2,
    y: (view.height - drawing.height * bounded) / 2,
  };
}

/** Zoom so that what is at (x, y) stays there. */
export function zoom(camera: Camera, factor: number, x: number, y: number): Camera {
  const scale = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, camera.scale * factor));
  const ratio = scale / camera.scale;
  return { scale, x: x - (x - camera.x) * ratio, y: y - (y - camera.y) * ratio };
}

/** Move as little as is needed for the box to be in sight. */
export function reveal(camera: Camera, box: { x: number; y: number } & Size, view: Size, margin = 24): Camera {
  const left = box.x * camera.scale + camera.x;
  const top = box.y * camera.scale + camera.y;
  const right = left + box.width * camera.scale;
  const bottom = top + box.height * camera.scale;
  const shift = (low: number, high: number, most: number): number => {
    if (low < margin) return margin - low;
    return high > most - margin ? Math.max(most - margin - high, margin - low) : 0;
  };
  return { ...camera, x: camera.x + shift(left, right, view.width), y: camera.y + shift(top, bottom, view.height) };
}
