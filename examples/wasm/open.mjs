// Serves the page to a browser, and ends with what the page says of itself.
//
//     node open.mjs wasm.wasm chromium --headless …
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';

const [wasm, browser, ...options] = process.argv.slice(2);
const here = (name) => new URL(name, import.meta.url);
const files = {
  '/': [here('page.html'), 'text/html'],
  '/host.mjs': [here('host.mjs'), 'text/javascript'],
  '/page.mjs': [here('page.mjs'), 'text/javascript'],
  '/wasm.wasm': [wasm, 'application/wasm'],
};

let running;
const end = (outcome) => {
  console.log(`the page in ${browser}: ${outcome}`);
  process.exitCode = outcome === 'as promised' ? 0 : 1;
  running.kill();
  server.closeAllConnections();
  server.close();
};
const server = createServer(async (request, response) => {
  if (request.method === 'POST') {
    let outcome = '';
    for await (const part of request) outcome += part;
    response.end();
    return end(outcome);
  }
  const [path, type] = files[request.url] ?? [];
  if (!path) return response.writeHead(404).end();
  response.writeHead(200, { 'content-type': type }).end(await readFile(path));
});
server.listen(0, '127.0.0.1', () => {
  const page = `http://127.0.0.1:${server.address().port}/`;
  running = spawn(browser, [...options, page], { stdio: 'ignore' });
  running.on('exit', (code, signal) => {
    if (server.listening && !signal) end(`the browser ended with ${code}`);
  });
});
