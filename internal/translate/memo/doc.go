// Package memo caches the outputs of pure functions by their whole input.
//
// A [Table] is created with the function whose outputs it caches. The function receives the key and
// nothing else, so an output cannot depend on anything that the key leaves out. A [KeyedTable] is
// for inputs that cannot be compared: a second function derives a comparable key from the input,
// usually a canonical text of it. Concurrent calls with equal keys compute the output once.
//
// Outputs are held by weak pointers: an output that no resource set of any proxy references any
// more is evicted by the next garbage collection, and an output in use never is. So there is no
// cache size to configure, and a push to a few proxies costs the others nothing. A part from which
// outputs are assembled is found again only if they reference it (resource.Resource.Parts).
//
// [Latest] caches the newest value of a key, from which the next one is derived. [List] is a
// comparable list, for use inside keys. Start with [Table].
package memo
