// What a page gains from scripts: local times, polls, and the buttons of selected rows. All of it works without, too.
(() => {
  "use strict";
  const POLL_MS = 5000;
  const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
  // Of 24 hours, whatever the language: at night 02:18 and 14:18 must not look alike.
  const hours = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const clock = new Intl.DateTimeFormat(undefined, { ...hours, second: "2-digit" });
  const minute = new Intl.DateTimeFormat(undefined, hours);
  const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long", hourCycle: "h23" });
  const steps = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [Infinity, "day", 86400]];
  const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "always", style: "short" });

  function ago(seconds) {
    const [, unit, size] = steps.find(([most]) => Math.abs(seconds) < most);
    return relative.format(Math.trunc(seconds / size), unit);
  }

  function left(seconds) {
    const whole = Math.max(0, Math.ceil(seconds));
    if (whole === 0) return "now";
    if (whole < 60) return `${whole} s`;
    const minutes = Math.floor(whole / 60);
    return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }

  function show(element) {
    const moment = new Date(element.dateTime);
    const seconds = (moment - Date.now()) / 1000;
    const kind = element.dataset.show;
    const text =
      kind === "ago" ? ago(seconds)
      : kind === "left" ? left(seconds)
      : element.dateTime.length === "2026-01-01T00:00Z".length ? minute.format(moment)
      : moment.toDateString() === new Date().toDateString() ? clock.format(moment)
      : `${day.format(moment)} ${clock.format(moment)}`;
    if (element.textContent !== text) element.textContent = text;
    const title = `${element.dateTime.replace("T", " ").replace("Z", " UTC")} · ${full.format(moment)}`;
    if (element.title !== title) element.title = title;
  }

  function showTimes() {
    document.querySelectorAll("time[datetime]").forEach(show);
  }

  // A poll must not take a field, a selection or an open form from under the hands of its user.
  function isBusy() {
    const active = document.activeElement;
    return document.hidden
      || (active && active.matches("main input:not([type=checkbox]), main textarea, main select"))
      || document.querySelector("main details.action[open], main input[name=job]:checked, main [data-edited]") !== null;
  }

  // The answer to a poll that was on its way may come too late: it is dropped, and asked for again.
  document.addEventListener("htmx:before:swap", (event) => {
    if (!isBusy()) return;
    event.preventDefault();
    delete document.getElementById("main")?._htmx?.ptag;
  });

  function poll() {
    const main = document.getElementById("main");
    if (main && main.hasAttribute("hx-get") && !isBusy()) htmx.trigger(main, "poll");
  }

  function countSelected() {
    const boxes = [...document.querySelectorAll("main input[name=job]")];
    const selected = boxes.filter((box) => box.checked).length;
    document.querySelectorAll("[data-selected]").forEach((element) => {
      element.textContent = selected === 1 ? "1 selected" : `${selected} selected`;
    });
    const all = document.querySelector("main input[data-all]");
    if (all) {
      all.checked = boxes.length > 0 && selected === boxes.length;
      all.indeterminate = selected > 0 && selected < boxes.length;
    }
  }

  document.addEventListener("change", (event) => {
    if (event.target.matches("main input[data-all]")) {
      document.querySelectorAll("main input[name=job]").forEach((box) => { box.checked = event.target.checked; });
    }
    countSelected();
  });
  document.addEventListener("input", (event) => {
    if (event.target.matches("main textarea")) event.target.dataset.edited = "";
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, textarea, select")) {
      document.querySelector(".search input")?.focus();
      event.preventDefault();
    }
    if (event.key === "Escape") {
      const form = event.target.closest("details.action[open]");
      form?.removeAttribute("open");
      form?.querySelector("summary").focus(); // the field that had the focus is gone
    }
  });
  // A picture that is pointed at has the numbers of that minute or hour, which are in its table.
  function point({ target, clientX }) {
    const picture = target.closest?.("svg[data-table]");
    if (!picture) return;
    const { left: start, width } = picture.getBoundingClientRect();
    const columns = (picture.querySelector(".data") ?? picture).viewBox.baseVal.width / 100;
    const place = Math.floor((clientX - start) / width * columns);
    const table = document.getElementById(picture.dataset.table);
    const row = table.querySelector(`[data-c="${place}"]`);
    const column = picture.querySelector(".column");
    column.setAttribute("x", 100 * place);
    column.setAttribute("width", row ? 100 : 0);
    if (!row) return;
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    const facts = [...row.cells].slice(1).map((cell, number) => `${heads[number + 1]}: ${cell.textContent.trim()}`);
    const when = `${row.parentNode.querySelector(".day")?.textContent.trim() ?? ""} ${row.cells[0].textContent.trim()}`;
    column.firstElementChild.textContent = [when.trim(), ...facts].join("\n");
  }
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  // What a reader has opened stays open when a poll brings the page anew.
  const opened = new Set();
  document.addEventListener("toggle", (event) => {
    const { id, open } = event.target;
    if (id && event.target.matches("main details")) opened[open ? "add" : "delete"](id);
  }, true);
  document.addEventListener("htmx:after:swap", () => {
    opened.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
    const main = document.getElementById("main");
    if (main?.dataset.title) document.title = main.dataset.title;
    showTimes();
    countSelected();
  });
  // A double click sends a form once.
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.sent) event.preventDefault();
    else event.target.dataset.sent = "1";
  });
  window.addEventListener("pageshow", () => {
    document.querySelectorAll("form[data-sent]").forEach((form) => delete form.dataset.sent);
  });
  // On a phone the menu is wider than the screen: its current page is in sight.
  document.querySelector(".top [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
  showTimes();
  countSelected();
  setInterval(showTimes, 1000);
  setInterval(poll, POLL_MS);
})();
