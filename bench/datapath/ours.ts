import { tuneGarbageCollection } from '../../src/main/tune-garbage-collection.ts';

tuneGarbageCollection();
await import('./export-once.ts');
