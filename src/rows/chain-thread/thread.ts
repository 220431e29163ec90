/** The program of the thread: applies a chain to the blocks that it is sent, in their order. */
import { parentPort, workerData } from 'node:worker_threads';
import { jsonOfField } from '../encoders/jsonlines/encode.ts';
import { findTransform } from '../transforms/index.ts';
import { compileStep } from '../transforms/step.ts';
import { type RowsShape, RowTransformer } from '../transforms/transform-rows.ts';
import {
  blockOf,
  memoryOf,
  type SentBlock,
  type ThreadAnswer,
  type ThreadSetup,
} from './messages.ts';

const port = parentPort;
if (!port) throw new Error('this program is for a thread');
// The sender is the same build.
const { steps: given, shape } = workerData as ThreadSetup;
const steps = given.map((step) => {
  const transform = findTransform(step.plugin);
  if (!transform) throw new Error(`there is no plugin ${step.plugin}`);
  return compileStep(step, transform);
});

const fields = new Map(shape.columns.map(({ name, type }) => [name, jsonOfField(type)]));
const toJson: RowsShape['toJson'] = ({ name }) => {
  const field = fields.get(name);
  if (!field) throw new Error(`there is no column ${name}`);
  return field;
};

// One after the other: a chain leaves the event loop to others in the middle of a long block.
let last = Promise.resolve();
port.on('message', (sent: SentBlock) => {
  last = last.then(() => answer(sent));
});

async function answer(sent: SentBlock): Promise<void> {
  const { place } = sent;
  try {
    // One for each block, so that its counters are those of the block.
    const transformer = new RowTransformer(steps, { ...shape, toJson });
    const { block, rejected, dropped } = await transformer.apply(blockOf(sent, shape.columns));
    const made = sendable(block, place);
    const shares = transformer.steps.map(({ counters, timeMs, errors }) => ({
      counters,
      timeMs,
      errors,
    }));
    send({ place, block: made, rejected, dropped, steps: shares }, memoryOf(made));
  } catch (error) {
    send({ place, error: error instanceof Error ? error.constructor.name : typeof error });
  }
}

function send(message: ThreadAnswer, memory: ArrayBuffer[] = []): void {
  parentPort?.postMessage(message, memory);
}

/** The memory of these blocks is this thread's own: sent, or made for one block. */
function sendable(
  { rowCount, bytes, offsets, lengths }: ReturnType<typeof blockOf>,
  place: number,
): SentBlock {
  return {
    place,
    rowCount,
    bytes: bytes as Uint8Array<ArrayBuffer>,
    offsets: offsets as Int32Array<ArrayBuffer>,
    lengths: lengths as Int32Array<ArrayBuffer>,
  };
}
