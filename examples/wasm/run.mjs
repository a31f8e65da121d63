// Runs all of the module with Node, and checks what ran.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { load } from './host.mjs';
import { play } from './page.mjs';

const module = await load(readFile(process.argv[2]));

// Sixty frames. They are of 16 ms here; in a browser they are the differences of the times that
// requestAnimationFrame passes.
assert.equal(module.start(), 1);
for (let frame = 0; frame < 3; frame++) module.frame(16);
assert.deepEqual([0, 1, 2].map(module.fired), [0, 2, 2]); // 48 ms: not the spell yet
for (let frame = 3; frame < 60; frame++) assert.equal(module.frame(16), frame < 3 ? 2 : 1);
assert.deepEqual([0, 1, 2].map(module.fired), [1, 48, 48]); // 960 ms
assert.equal(module.end(), 1);
console.log('60 frames: the spell once, 48 shots of each tower');

const systems = Object.keys(module).filter((name) => name.startsWith('system_'));
assert.ok(systems.length >= 13);
for (const name of systems) assert.equal(module[name](), 1, name);
console.log(`${systems.length} systems in virtual time`);

const seen = await play(module);
console.log(`the page: ${seen.searches} search for ${seen.length} letters, nothing early`);
