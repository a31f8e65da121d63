// Keeps a page up to date, and gives it keys. Without it pages show what there is when they load.
'use strict';

const live = document.getElementById('live');
const link = document.getElementById('link');
const pause = document.getElementById('pause');

// Makes `from` like `to` in place, so that the focus, a selection and the scrolling stay. `to` comes
// from a document that runs nothing.
function morph(from, to) {
  if (from.nodeName !== to.nodeName) return from.replaceWith(to);
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  const [old, fresh] = [[...from.childNodes], [...to.childNodes]];
  fresh.forEach((node, place) => {
    if (old[place]) morph(old[place], node);
    else from.append(node);
  });
  old.slice(fresh.length).forEach((node) => node.remove());
}

function show(content) {
  const parsed = new DOMParser().parseFromString(`<div>${content}</div>`, 'text/html');
  const fresh = parsed.body.firstChild;
  for (const { name, value } of live.attributes) fresh.setAttribute(name, value);
  morph(live, fresh);
}

function say(text, bad) {
  if (link.textContent !== text) link.textContent = text;
  link.classList.toggle('bad', bad);
}

let held; // what came while it was paused
let paused = false;
let last = Date.now();

function listen() {
  const events = new EventSource(live.dataset.feed);
  events.onmessage = ({ data }) => {
    last = Date.now();
    if (paused) held = data;
    else show(data);
    say(paused ? 'Paused' : 'Live', false);
  };
  events.onerror = async () => {
    say('No connection to lars-web. It is tried again …', true);
    if (events.readyState !== EventSource.CLOSED) return;
    // It was refused: perhaps the server was started anew, and asks for its token.
    const answer = await fetch(live.dataset.feed, { method: 'HEAD' }).catch(() => undefined);
    if (answer?.status === 401) location.reload();
    else setTimeout(listen, 3000);
  };
}

if (live) {
  listen();
  pause.hidden = false;
  pause.onclick = () => {
    paused = !paused;
    pause.setAttribute('aria-pressed', paused);
    say(paused ? 'Paused' : 'Live', false);
    if (!paused && held !== undefined) show(held);
    held = undefined;
  };
  setInterval(() => {
    const old = Math.round((Date.now() - last) / 1000);
    if (old > 20 && !live.querySelector('[data-rests]')) say(`Nothing new for ${old} s.`, true);
  }, 1000);
}

document.addEventListener('keydown', (event) => {
  const typing = event.target.closest('input, select, textarea');
  if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
  const page = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
  if (page) page.click();
  else if (event.key === 'p' && live) pause.click();
  else if (event.key === '/') {
    event.preventDefault();
    const search = document.getElementById('search');
    if (search) search.focus();
    else document.querySelector('nav a[href="timers"]')?.click();
  }
});
