// Package memo remembers the outputs of pure functions by their whole input, for as long as somebody uses them.
//
// In: a comparable input and a function of nothing but it. Out: the function's output, computed once however many ask at once.
// Law: the input is all that the function is given, so a key that leaves something out cannot be written.
//
// Outputs are held weakly: what no resource set of any proxy holds any more is forgotten with the next garbage collection,
// and nothing that is in use ever is. So there is no size to tune, and a push that touches a few proxies costs the others
// nothing. An output that others are assembled from must be held by them (resource.Resource.Parts) to be found again.
//
// Start with [Table]; [Latest] is for what is made of the value before it.
package memo
