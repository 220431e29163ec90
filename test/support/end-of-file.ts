import { afterAll } from 'vitest';
import { dropLeftovers } from './database.ts';
import { endLeftovers } from './processes.ts';

// For files that share their modules: what these register for a file by themselves, they register for the first one.
afterAll(dropLeftovers);
afterAll(endLeftovers);
