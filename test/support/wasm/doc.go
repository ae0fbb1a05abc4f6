// Package wasm builds Wasm plugins for tests: the smallest modules of proxy-wasm's ABI 0.2.1 with a
// visible effect. It contains no compiler: a module is assembled from its sections, as the format's
// specification has them.
//
// [Registry] serves them to clients with a password.
//
// https://github.com/proxy-wasm/spec/tree/main/abi-versions/v0.2.1,
// https://webassembly.github.io/spec/core/binary/
package wasm
