import { tuneGarbageCollection } from '../../src/service/admission/tune-garbage-collection.ts';

tuneGarbageCollection();
await import('./export-once.ts');
