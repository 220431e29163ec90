import { tuneGarbageCollection } from '../../src/admission/tune-garbage-collection.ts';

tuneGarbageCollection();
await import('./export-once.ts');
