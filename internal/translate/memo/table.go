package memo

// Table caches the outputs of one function of a comparable input; V is a pointer. Its methods are
// safe for concurrent use.
type Table[K comparable, V any] struct {
	cache[K, V]
	build func(K) V
}

// New returns an empty Table of the outputs of build, which must depend on its argument alone. A T
// of less than 16 bytes without pointers may stay cached longer than it is in use, because the
// runtime packs such values into shared blocks.
func New[K comparable, T any](build func(K) *T) *Table[K, *T] {
	return &Table[K, *T]{cache: newCache[K, T](), build: build}
}

// Get returns the output for k, from the cache or computed. Concurrent calls for an equal k wait
// for one computation. If the function panics, the panic propagates and nothing is cached.
func (t *Table[K, V]) Get(k K) V {
	e := t.lookup(k)
	if v, ok := e.get(); ok {
		t.hits.Add(1)
		return v
	}
	return compute(&t.cache, e, k, k, t.build)
}

// KeyedTable caches the outputs of one function of an input that cannot be compared, or that is
// larger than what identifies it; V is a pointer. Its methods are safe for concurrent use.
type KeyedTable[I any, K comparable, V any] struct {
	cache[K, V]
	key   func(I) K
	build func(I) V
}

// NewKeyed returns an empty KeyedTable of the outputs of build. Inputs with equal keys must have
// equal outputs: key derives the key from the same input that build receives.
func NewKeyed[I any, K comparable, T any](key func(I) K, build func(I) *T) *KeyedTable[I, K, *T] {
	return &KeyedTable[I, K, *T]{cache: newCache[K, T](), key: key, build: build}
}

// Get returns the output for in, from the cache by its key or computed. Concurrent calls for an
// equal key wait for one computation. If either function panics, the panic propagates and nothing
// is cached.
func (t *KeyedTable[I, K, V]) Get(in I) V {
	k := t.key(in)
	e := t.lookup(k)
	if v, ok := e.get(); ok {
		t.hits.Add(1)
		return v
	}
	return compute(&t.cache, e, k, in, t.build)
}
