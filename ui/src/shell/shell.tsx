/** The frame around every screen: navigation on the left, the bar on top, and what lies over all of it. */
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { registerKeys, useKeys } from "../core/keys";
import { startLive } from "../core/live";
import { density, densityHere, densityShown, type Theme, theme, zone } from "../core/preferences";
import { Link, navigate, path, place } from "../core/router";
import type { NavItem, Screen } from "../core/screen";
import { may, me } from "../core/session";
import { zoneName } from "../core/time";
import { screens } from "../screens";
import { Button } from "../widgets/button";
import { ConfirmHost } from "../widgets/dialog";
import { Icon, type IconName } from "../widgets/icon";
import { Menu } from "../widgets/menu";
import { BrandMark } from "./brand";
import { ConnectionBar, LiveDot } from "./connection";
import { EnvironmentBadge } from "./environment";
import { KeyHelp, keyHelpOpen } from "./key-help";
import { openPalette, Palette, SEARCH_LABEL } from "./palette";
import { signOut } from "./sign-in";
import { Toasts } from "./toasts";

const menuOpen = signal(false);
const SECTIONS: [NavItem["section"], string][] = [
  ["work", "Work"],
  ["content", "Content"],
  ["platform", "Platform"],
];
const THEMES: [Theme, string, IconName][] = [
  ["system", "As the system", "system"],
  ["light", "Light", "sun"],
  ["dark", "Dark", "moon"],
  ["contrast", "High contrast", "contrast"],
];

export function isOffered(screen: Screen): boolean {
  return (screen.scopes ?? ["read"]).some(may);
}

const firstPath = (screen: Screen): string => (typeof screen.path === "string" ? screen.path : (screen.path[0] ?? "/"));

export function Shell({ screen, children }: { screen: Screen | undefined; children: ComponentChildren }): JSX.Element {
  useEffect(() => {
    if (screen) document.title = `${screen.title} · rmhdag`;
    // A screen starts it itself, once it is there.
    else startLive();
  }, [screen]);
  useEffect(() => {
    menuOpen.value = false;
  }, [path.value]);
  useGlobalKeys();
  return (
    <div class="shell">
      <a class="skip-link" href="#main">
        Skip to the content
      </a>
      <TopBar />
      <Navigation current={screen} />
      <main id="main" tabIndex={-1}>
        <ConnectionBar />
        {children}
      </main>
      <Palette />
      {keyHelpOpen.value ? <KeyHelp /> : null}
      <ConfirmHost />
      <Toasts />
    </div>
  );
}

function useGlobalKeys(): void {
  useKeys(() => {
    const go = screens
      .filter((one) => one.nav?.key && isOffered(one))
      .map((one) => ({
        keys: `g ${one.nav?.key}`,
        label: `Go to ${one.nav?.label}`,
        group: "Go to",
        run: () => navigate(firstPath(one)),
      }));
    return [
      ...go,
      { keys: "Mod+K", label: SEARCH_LABEL, group: "Everywhere", run: () => openPalette(), whileTyping: true },
      { keys: "/", label: SEARCH_LABEL, group: "Everywhere", run: () => openPalette() },
      { keys: "?", label: "Show the keys", group: "Everywhere", run: () => (keyHelpOpen.value = true) },
      { keys: "Shift+T", label: "Next theme", group: "Everywhere", run: nextTheme },
      ...(may("submit") && screens.some((one) => one.name === "submit")
        ? [{ keys: "n", label: "New job", group: "Everywhere", run: () => navigate("/submit") }]
        : []),
    ];
  }, [me.value]);
  useEffect(
    () =>
      registerKeys([
        {
          keys: "Escape",
          label: "Close what is open",
          group: "Everywhere",
          run: () => {
            menuOpen.value = false;
            if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
          },
        },
      ]),
    [],
  );
}

function nextTheme(): void {
  const index = THEMES.findIndex(([name]) => name === theme.value);
  theme.value = THEMES[(index + 1) % THEMES.length]?.[0] ?? "system";
}

function TopBar(): JSX.Element {
  const [, label, icon] = THEMES.find(([name]) => name === theme.value) ?? THEMES[0] ?? ["system", "", "system"];
  return (
    <header class="top-bar">
      <Button
        class="menu-button"
        look="quiet"
        icon="menu"
        label="Menu"
        pressed={menuOpen.value}
        onClick={() => (menuOpen.value = !menuOpen.value)}
      />
      <Link to="/" class="brand" aria-label="rmhdag, dashboard">
        <BrandMark />
        <span class="brand-name">rmhdag</span>
      </Link>
      <EnvironmentBadge />
      <button type="button" class="search-button" onClick={() => openPalette()}>
        <Icon name="search" />
        <span class="search-words">Search any id, workflow, screen…</span>
        <kbd>/</kbd>
      </button>
      <div class="top-tools">
        <LiveDot />
        <Button
          look="quiet"
          class="zone-button"
          label={`Times in ${zoneName()}; switch to ${zone.value === "utc" ? "local time" : "UTC"}`}
          onClick={() => (zone.value = zone.value === "utc" ? "local" : "utc")}
        >
          {zone.value === "utc" ? "UTC" : "Local"}
        </Button>
        <Button look="quiet" icon={icon} label={`Theme: ${label}. Switch`} onClick={nextTheme} />
        <Account />
      </div>
    </header>
  );
}

function Account(): JSX.Element {
  const who = me.value;
  return (
    <Menu
      label={`Signed in as ${who?.name ?? "?"}`}
      summary={
        <>
          <span class="avatar" aria-hidden="true">
            {(who?.name ?? "?").slice(0, 1).toUpperCase()}
          </span>
          <span class="account-name">{who?.name}</span>
        </>
      }
    >
      <p class="menu-text">
        <strong>{who?.name}</strong>
        <br />
        namespace {who?.namespace}
        <br />
        may {who?.scopes.join(", ")}
      </p>
      <Button
        look="quiet"
        icon="jobs"
        onClick={() => {
          density.value = densityShown.value === "compact" ? "roomy" : "compact";
          if (densityHere.value) densityHere.value = density.value;
        }}
      >
        {densityShown.value === "compact" ? "Roomy rows" : "Compact rows"}
      </Button>
      <Button look="quiet" icon="about" onClick={() => (keyHelpOpen.value = true)}>
        Keys
      </Button>
      <Button look="quiet" icon="out" onClick={signOut}>
        Sign out
      </Button>
    </Menu>
  );
}

function Navigation({ current }: { current: Screen | undefined }): JSX.Element {
  const offered = screens.filter((one) => one.nav && isOffered(one));
  const inside = (one: Screen): boolean =>
    one === current || (firstPath(one) !== "/" && place.value.path.startsWith(`${firstPath(one)}/`));
  return (
    <nav class={`side-nav ${menuOpen.value ? "side-nav-open" : ""}`} aria-label="Main">
      {SECTIONS.map(([section, title]) => {
        const items = offered
          .filter((one) => one.nav?.section === section)
          .sort((a, b) => (a.nav?.order ?? 0) - (b.nav?.order ?? 0));
        return items.length === 0 ? null : (
          <div key={section} class="nav-section">
            <p class="nav-title">{title}</p>
            <ul>
              {items.map((one) => (
                <li key={one.name}>
                  <Link to={firstPath(one)} class="nav-link" aria-current={inside(one) ? "page" : undefined}>
                    {one.nav ? <Icon name={one.nav.icon} /> : null}
                    <span>{one.nav?.label}</span>
                  </Link>
                </li>
              ))}
            </ul>
          </div>
        );
      })}
    </nav>
  );
}
