// Plays sixty frames, and checks what ran. The frames are of 16 ms here; in a browser they are the
// differences of the times that requestAnimationFrame passes.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

const bytes = await readFile(process.argv[2]);
const { instance } = await WebAssembly.instantiate(bytes, {});
const game = instance.exports;

assert.equal(game.start(), 1);
assert.equal(game.thread_is_refused(), 1);
for (let frame = 0; frame < 3; frame++) game.frame(16);
assert.deepEqual([0, 1, 2].map(game.fired), [0, 2, 2]); // 48 ms: not the spell yet
for (let frame = 3; frame < 60; frame++) assert.equal(game.frame(16), frame < 3 ? 2 : 1);
assert.deepEqual([0, 1, 2].map(game.fired), [1, 48, 48]); // 960 ms
assert.equal(game.end(), 1);
console.log('60 frames: the spell once, 48 shots of each tower');
