// Keeps the part of the page that is alive up to date: asks for the page again, and puts what has
// changed in its place. What has the focus keeps it. Without a script the page shows one moment.
"use strict";
const EVERY_MS = 2000;
const live = document.getElementById("live"); // stays; what is in it changes
const news = document.getElementById("news");
let seenAt = new Date();

// cell by cell, where the tables have the same shape; else as a whole
const renew = (old, fresh) => {
  if (old.isEqualNode(fresh)) return;
  const isInner = old.nodeType === 1 && fresh.nodeType === 1 && old.localName === fresh.localName
    && old.childNodes.length === fresh.childNodes.length && old.childElementCount > 0;
  if (!isInner) {
    old.replaceWith(fresh);
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const after = [...fresh.childNodes];
  [...old.childNodes].forEach((child, at) => renew(child, after[at]));
};

const look = async () => {
  let wrong = "";
  try {
    const answer = await fetch(location.href, { redirect: "manual", signal: AbortSignal.timeout(10000) });
    if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = [...document.adoptNode(page.getElementById("live")).childNodes];
      const focused = document.activeElement?.getAttribute("href");
      if (fresh.length === live.childNodes.length) {
        [...live.childNodes].forEach((child, at) => renew(child, fresh[at]));
      } else {
        live.replaceChildren(...fresh);
      }
      if (focused && document.activeElement === document.body) {
        [...live.querySelectorAll("a")].find(one => one.getAttribute("href") === focused)?.focus();
      }
      seenAt = new Date();
    } else {
      wrong = answer.status ? `the desk answers ${answer.status}` : "you are signed out";
    }
  } catch {
    wrong = "the desk does not answer";
  }
  const said = wrong && `This is as it was at ${seenAt.toLocaleTimeString()}: ${wrong}.`;
  if (news.textContent !== said) news.textContent = said;
};

const goOn = async () => {
  if (!document.hidden) await look();
  setTimeout(goOn, EVERY_MS);
};
setTimeout(goOn, EVERY_MS);
