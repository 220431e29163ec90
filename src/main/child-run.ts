import { tuneGarbageCollection } from './tune-garbage-collection.ts';

tuneGarbageCollection();
await import('./run-child.ts');
