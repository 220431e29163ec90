import { useCompileCache } from './compile-cache.ts';
import { tuneGarbageCollection } from '../service/admission/tune-garbage-collection.ts';

tuneGarbageCollection();
useCompileCache();
await import('./run-worker.ts');
