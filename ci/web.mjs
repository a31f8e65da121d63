// Drives Chromium through the pages of a program, and ends with what it found.
//
//     node ci/web.mjs PROGRAM PICTURES chromium --headless …
//
// The program prints its token and its address. The browser is spoken to by its debugging pipe:
// JSON values, each with a NUL at its end.
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';

const [program, pictures, browserPath, ...options] = process.argv.slice(2);
const shop = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
const browser = spawn(browserPath, [...options, '--remote-debugging-pipe'], {
  stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
});

let number = 0;
const answers = new Map();
const wrong = []; // what no page may do
let loads = 0;

const send = (method, params = {}, sessionId = undefined) =>
  new Promise((resolve, reject) => {
    number += 1;
    answers.set(number, { resolve, reject });
    browser.stdio[3].write(`${JSON.stringify({ id: number, method, params, sessionId })}\0`);
  });

let received = '';
browser.stdio[4].on('data', (part) => {
  received += part;
  const messages = received.split('\0');
  received = messages.pop();
  for (const message of messages) take(JSON.parse(message));
});

function take({ id, result, error, method, params }) {
  if (id) {
    const { resolve, reject } = answers.get(id);
    answers.delete(id);
    return error ? reject(new Error(JSON.stringify(error))) : resolve(result);
  }
  if (method === 'Page.javascriptDialogOpening') wrong.push(`a dialog: ${params.message}`);
  if (method === 'Runtime.exceptionThrown') wrong.push(params.exceptionDetails.text);
  if (method === 'Log.entryAdded' && params.entry.level === 'error') {
    wrong.push(`${params.entry.text} ${params.entry.url ?? ''}`);
  }
  if (method === 'Network.requestWillBeSent' && !params.request.url.startsWith(origin)) {
    wrong.push(`it loads ${params.request.url}`);
  }
  if (method === 'Page.loadEventFired') loads += 1;
}

const lines = createInterface({ input: shop.stdout })[Symbol.asyncIterator]();
const token = (await lines.next()).value;
const address = (await lines.next()).value;
const { origin } = new URL(address);
// The page that is in front: one behind it draws nothing, and feels no mouse.
let first;
while (!first) {
  const { targetInfos } = await send('Target.getTargets');
  first = targetInfos.find(({ type }) => type === 'page');
}
const { targetId } = first;
const { sessionId } = await send('Target.attachToTarget', { targetId, flatten: true });
const page = (method, params) => send(method, params, sessionId);
for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await page(`${domain}.enable`);

async function read(expression) {
  const { result, exceptionDetails } = await page('Runtime.evaluate', {
    expression,
    returnByValue: true,
  });
  if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.text}`);
  return result.value;
}

// However long it takes: `ci/web.sh` ends what hangs.
let waits = '';
async function until(expression) {
  waits = expression;
  for (;;) {
    if (await read(expression).catch(() => false)) return;
    await new Promise((then) => setTimeout(then, 50));
  }
}
process.on('SIGTERM', async () => {
  console.error(`it waited in vain for: ${waits}`);
  for (const what of wrong) console.error(what);
  await Promise.race([picture('failed'), new Promise((then) => setTimeout(then, 3000))]);
  process.exit(1);
});

const says = (text) => until(`document.body.innerText.includes(${JSON.stringify(text)})`);

// Does what leads to another page, and waits for that.
async function leads(action) {
  const before = loads;
  await action();
  waits = `a page, after ${action}`;
  while (loads === before) await new Promise((then) => setTimeout(then, 20));
}

const open = (path) => leads(() => page('Page.navigate', { url: address + path }));

async function click(selector) {
  const element = `document.querySelector(${JSON.stringify(selector)})`;
  await until(`${element} !== null`);
  const { x, y } = await read(`(() => {
    ${element}.scrollIntoView({ block: 'center' });
    const box = ${element}.getBoundingClientRect();
    return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  })()`);
  const at = { x, y, button: 'left', clickCount: 1 };
  await page('Input.dispatchMouseEvent', { type: 'mousePressed', ...at });
  await page('Input.dispatchMouseEvent', { type: 'mouseReleased', ...at });
}

const codes = { Enter: 13, Tab: 9 };
async function press(key) {
  const code = codes[key];
  const text = code === 13 ? '\r' : code ? undefined : key;
  const all = { key, text, windowsVirtualKeyCode: code };
  await page('Input.dispatchKeyEvent', { type: 'keyDown', ...all });
  await page('Input.dispatchKeyEvent', { type: 'keyUp', ...all });
}

async function type(text) {
  for (const key of text) await press(key);
}

function check(holds, what) {
  if (!holds) wrong.push(what);
}

async function picture(name) {
  const { data } = await page('Page.captureScreenshot', { captureBeyondViewport: false });
  await writeFile(`${pictures}/${name}.png`, Buffer.from(data, 'base64'));
}

async function logIn() {
  await open('/group');
  await says('This page is for those who know its token');
  // The field has the focus.
  await type('no token at all');
  await leads(() => press('Enter'));
  await says('This is not the token.');
  wrong.length = 0; // that was 401, which the browser logs
  await type(token);
  await leads(() => press('Enter'));
  await says('shop-1');
}

// The page is kept up to date, and what has the focus keeps it.
async function news() {
  await until(`document.getElementById('link').textContent === 'Live'`);
  await read(`document.querySelector('main a').focus(); window.kept = document.activeElement`);
  for (let time = 0; time < 2; time += 1) {
    const before = await read(`document.getElementById('live').innerText`);
    await until(`document.getElementById('live').innerText !== ${JSON.stringify(before)}`);
  }
  check(await read('window.kept === document.activeElement'), 'the focus is lost with news');
  await press('p');
  await until(`document.getElementById('link').textContent === 'Paused'`);
  await press('p');
}

// What is a text is shown as one.
async function hostile() {
  await says('<b onclick=alert(3)>report</b>');
  await open('/timers?handler=charge&state=parked');
  await says('</pre><script>alert(1)</script>');
  await leads(() => click('tbody a'));
  await says('</pre><script>alert(1)</script><img src=x onerror=alert(2)>');
  check((await read('document.scripts.length')) === 1, 'there is a script that is not ours');
  check((await read(`document.querySelectorAll('img, main b[onclick]').length`)) === 0, 'a tag');
}

// By mouse: a single timer, a handler, all that match.
async function actions() {
  await leads(() => click('button[value=retry]'));
  await says('It runs again, now.');
  await open('/group');
  await leads(() => click('button[aria-label="Pause remind"]'));
  await says('The handler remind starts no more timers.');
  await open('/group');
  await says('paused');
  await leads(() => click('button[aria-label="Resume remind"]'));
  await open('/timers?key=order%2F1');
  await leads(() => click('button[value=cancel]'));
  await says('Are you sure?');
  await picture('sure');
  await leads(() => click('button.strong'));
  await until(`document.getElementById('state').textContent === 'done'`);
  const changed = await read(`document.getElementById('changed').textContent`);
  check(changed === '111', `${changed} timers were cancelled, and not 111`);
  // It is over, so nothing more comes, however long one looks at it.
  await read('last -= 60000');
  await new Promise((then) => setTimeout(then, 1500));
  const link = await read(`document.getElementById('link').textContent`);
  check(link === 'Live', `what is over says: ${link}`);
}

// By keyboard alone.
async function keys() {
  await open('/group');
  await leads(() => press('2'));
  await press('/');
  check((await read('document.activeElement.id')) === 'search', '`/` leads to no search');
  await type('charge');
  await leads(() => press('Enter'));
  await says('connection refused');
  await press('Tab');
  check((await read('document.activeElement.className')) === 'skip', 'Tab begins elsewhere');
  await press('Enter');
  await until(`location.hash === '#main' && location.pathname.endsWith('/timers')`);
}

// On a desk and on a phone, in light and dark.
async function sizes() {
  const paths = ['group', 'timers', 'scheduler', 'actors'];
  for (const [width, height] of [[1280, 900], [390, 844]]) {
    const mobile = width < 500;
    const metrics = { width, height, deviceScaleFactor: 1, mobile };
    await page('Emulation.setDeviceMetricsOverride', metrics);
    for (const value of ['light', 'dark']) {
      const features = [{ name: 'prefers-color-scheme', value }];
      await page('Emulation.setEmulatedMedia', { features });
      for (const path of paths) {
        await open(`/${path}`);
        if (path !== 'timers') await until(`document.querySelector('.tile') !== null`);
        const wide = await read('document.scrollingElement.scrollWidth');
        check(wide <= width, `${path} is ${wide} wide, and the screen ${width}`);
        await picture(`${path}-${width}-${value}`);
      }
    }
  }
}

for (const step of [logIn, news, hostile, actions, keys, sizes]) {
  const begin = Date.now();
  await step();
  console.log(`${step.name}: ${Date.now() - begin} ms`);
}
const ended = new Promise((then) => browser.on('exit', then));
await send('Browser.close');
await ended;
shop.stdin.end();
for (const what of wrong) console.error(what);
console.log(wrong.length === 0 ? 'the pages in Chromium: as promised' : 'the pages: wrong');
process.exit(wrong.length === 0 ? 0 : 1);
