import { useCompileCache } from './compile-cache.ts';

useCompileCache();
await import('./run-all-in-one.ts');
