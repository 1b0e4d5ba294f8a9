declare module "node:test";
declare module "node:assert/strict";
declare const process: { env: Record<string, string> };
declare const Buffer: any;
type Buffer = any;
declare module "node:fs";
