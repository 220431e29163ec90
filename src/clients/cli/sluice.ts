#!/usr/bin/env node
import { loadProgram } from '../../main/load-program.ts';

await loadProgram(() => import('./terminal.ts'));
