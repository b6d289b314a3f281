// What a page does beyond showing: times as ages, a filter, the theme, and looking again.
// Without it everything can be read; with it nothing is sent anywhere but to this server.
(() => {
  "use strict";
  const root = document.documentElement;
  const live = () => document.getElementById("live");
  let lastMs = Date.now();

  // ---- times: "2 min ago" beside each
  const STEPS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const age = (seconds) => {
    if (seconds < 1) return "now";
    const [size, unit] = STEPS.find(([step]) => seconds >= step);
    return `${Math.floor(seconds / size).toLocaleString("en")} ${unit} ago`;
  };
  const tellAges = () => {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const words = age((Date.now() - Date.parse(time.dateTime)) / 1000);
      let span = time.querySelector(".ago");
      if (!span) {
        span = document.createElement("span");
        span.className = "ago";
        time.append(" ", span);
      }
      if (span.textContent !== words) span.textContent = words;
    }
  };

  // ---- light or dark: as the system says, until the button is pressed
  const theme = document.getElementById("theme");
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const showTheme = () => {
    theme.hidden = false;
    theme.setAttribute("aria-pressed", String(isDark()));
  };
  const kept = (value) => {
    try {
      if (value) localStorage.setItem("tidelake-theme", value);
      return localStorage.getItem("tidelake-theme");
    } catch {
      return null; // a file that is opened from disk may have no storage
    }
  };
  if (["light", "dark"].includes(kept())) root.dataset.theme = kept();
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    kept(root.dataset.theme);
    showTheme();
  });
  showTheme();

  // ---- a filter of the tables' names
  const filter = () => {
    const field = document.getElementById("find");
    const table = document.getElementById("tables");
    if (!field || !table) return;
    field.closest("label").hidden = false;
    const wanted = field.value.trim().toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.dataset.name.toLowerCase().includes(wanted);
      shown += row.hidden ? 0 : 1;
    }
    document.getElementById("none").hidden = shown > 0;
  };
  document.addEventListener("input", (event) => {
    if (event.target.id === "find") filter();
  });
  document.addEventListener("keydown", (event) => {
    const field = document.getElementById("find");
    if (!field || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && !event.target.closest("input, textarea")) {
      event.preventDefault();
      field.focus();
    } else if (event.key === "Escape" && event.target === field) {
      field.value = "";
      filter();
    }
  });

  // ---- look again: a page that did not change costs an answer without a body
  let etag = null;
  const say = (words, state) => {
    const place = live();
    if (!place) return;
    place.classList.toggle("on", state);
    place.classList.toggle("off", !state);
    if (place.textContent !== words) place.textContent = words;
  };
  // sections that differ are put in place; focus, scrolling and the filter stay
  const take = (text) => {
    const next = new DOMParser().parseFromString(text, "text/html");
    const now = document.getElementById("main");
    const focused = document.activeElement;
    const path = focused && now.contains(focused) && focused.closest("[id]") ? focused.closest("[id]").id : null;
    const places = new Map([...now.querySelectorAll(".scroll[id]")].map((one) => [one.id, one.scrollLeft]));
    const wanted = document.getElementById("find") ? document.getElementById("find").value : "";
    const same = (a, b) => a && b && a.outerHTML === b.outerHTML;
    const fresh = next.getElementById("main");
    for (const time of now.querySelectorAll("time .ago")) {
      const before = time.previousSibling;
      if (before && before.nodeType === Node.TEXT_NODE && before.data === " ") before.remove();
      time.remove();
    }
    const old = [...now.children];
    const parts = [...fresh.children];
    if (old.length === parts.length && old.every((one, n) => one.tagName === parts[n].tagName)) {
      parts.forEach((part, n) => same(old[n], part) || old[n].replaceWith(part));
    } else {
      now.replaceChildren(...parts);
    }
    document.body.toggleAttribute("data-pending", next.body.hasAttribute("data-pending"));
    for (const [id, left] of places) {
      const place = document.getElementById(id);
      if (place) place.scrollLeft = left;
    }
    const field = document.getElementById("find");
    if (field) field.value = wanted;
    if (path && !now.contains(document.activeElement)) {
      const place = document.getElementById(path);
      if (place) place.focus({ preventScroll: true });
    }
    filter();
    tellAges();
  };
  const look = async () => {
    const headers = etag ? { "If-None-Match": etag } : {};
    const answer = await fetch(location.pathname + location.search, { headers, cache: "no-store", credentials: "same-origin" });
    if (answer.status === 200 && !answer.redirected) {
      const fresh = answer.headers.get("ETag");
      const text = await answer.text();
      if (fresh !== etag) take(text);
      etag = fresh;
    } else if (answer.status !== 304) {
      throw new Error(String(answer.status));
    }
    lastMs = Date.now();
  };
  const every = Number(document.body.dataset.poll || 0);
  const round = async () => {
    if (!document.hidden) {
      try {
        await look();
        say("live", true);
      } catch {
        say(`no answer since ${age((Date.now() - lastMs) / 1000).replace(" ago", "")}`, false);
      }
    }
    setTimeout(round, document.body.hasAttribute("data-pending") ? 500 : every);
  };
  if (every) {
    document.addEventListener("visibilitychange", () => document.hidden || tellAges());
    setTimeout(round, document.body.hasAttribute("data-pending") ? 300 : every);
    say("live", true);
  }
  filter();
  tellAges();
  setInterval(tellAges, 1000);
})();
