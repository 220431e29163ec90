#!/usr/bin/env node
import { useCompileCache } from '../../main/compile-cache.ts';

useCompileCache();
await import('./terminal.ts');
