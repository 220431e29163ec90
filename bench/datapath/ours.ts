import { tuneGarbageCollection } from '../../src/service/admission/process-memory.ts';

tuneGarbageCollection();
await import('./export-once.ts');
