package fleet

import (
	"fmt"
	"hash/maphash"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/test/perf/wire"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// library is shared by all proxies of a fleet: it maps names and versions to small numbers, and
// stores the relevant parts of each distinct resource.
type library struct {
	seed maphash.Seed
	// check is the interval of distinct resources that are decoded in full; 0: none is.
	check int

	mu       sync.RWMutex
	books    [wire.NumTypes]map[uint64]*book // by the hash of a body
	ids      map[string]int32
	names    []string
	eds      map[int32]int32 // cluster to the EDS resource that it waits for
	editions map[edition]int32
	list     []edition // 0 is reserved: not there
	seen     int
	faults   []string
}

// book is a distinct resource.
type book struct {
	id, endpoints int32 // endpoints is -1 for a cluster that waits for none
	// routes and extensions are the RDS and ECDS resources that a listener needs.
	routes, extensions []int32
	marks              []workload.Mark
	sum                uint64
}

// edition is a resource of a proxy: the version from the server, and the content.
type edition struct {
	version string
	sum     uint64
}

func newLibrary(check int) *library {
	l := &library{
		seed: maphash.MakeSeed(), check: check, ids: map[string]int32{}, eds: map[int32]int32{},
		editions: map[edition]int32{}, list: make([]edition, 1),
	}
	for t := range l.books {
		l.books[t] = map[uint64]*book{}
	}
	return l
}

// findEdition returns the book and the edition of a resource, which it decodes on the first call.
func (l *library) findEdition(t wire.Type, e wire.Entry) (*book, int32, error) {
	h := maphash.Bytes(l.seed, e.Body)
	l.mu.RLock()
	b := l.books[t][h]
	var number int32
	if b != nil {
		number = l.editions[edition{string(e.Version), b.sum}]
	}
	l.mu.RUnlock()
	if number != 0 {
		return b, number, nil
	}
	if b == nil {
		var err error
		if b, err = l.readResource(t, e.Body, h); err != nil {
			return nil, 0, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := edition{string(e.Version), b.sum}
	if number = l.editions[key]; number == 0 {
		number = int32(len(l.list))
		l.editions[key] = number
		l.list = append(l.list, key)
	}
	return b, number, nil
}

func (l *library) readResource(t wire.Type, body []byte, h uint64) (*book, error) {
	r, err := wire.ParseResource(t, body)
	if err != nil {
		return nil, fmt.Errorf("read a resource of %v: %w", t, err)
	}
	marks := workload.FindMarks(t, body)
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.books[t][h]; b != nil {
		return b, nil
	}
	b := &book{id: l.internName(r.Name), endpoints: -1, marks: marks, sum: r.Sum}
	if r.Endpoints != "" {
		b.endpoints = l.internName(r.Endpoints)
		l.eds[b.id] = b.endpoints
	}
	for _, name := range r.Routes {
		b.routes = append(b.routes, l.internName(name))
	}
	for _, name := range r.Extensions {
		b.extensions = append(b.extensions, l.internName(name))
	}
	l.books[t][h] = b
	if l.seen++; l.check > 0 && l.seen%l.check == 0 {
		l.checkSample(t, r.Name, body)
	}
	return b, nil
}

// checkSample decodes a sample in full, because a server must not gain by sending invalid
// resources.
func (l *library) checkSample(t wire.Type, name string, body []byte) {
	const most = 10
	if err := wire.CheckResource(t, body); err != nil && len(l.faults) < most {
		l.faults = append(l.faults, fmt.Sprintf("%s: %v", name, err))
	}
}

// internName returns the number of a name. l.mu is held.
func (l *library) internName(name string) int32 {
	id, ok := l.ids[name]
	if !ok {
		id = int32(len(l.names))
		l.ids[name] = id
		l.names = append(l.names, name)
	}
	return id
}

// idOf returns the number of a name, if the name is known.
func (l *library) idOf(name []byte) (int32, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	id, ok := l.ids[string(name)]
	return id, ok
}

// endpointsOf returns the EDS resource that a cluster waits for.
func (l *library) endpointsOf(cluster int32) (int32, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	id, ok := l.eds[cluster]
	return id, ok
}

// appendNames appends the names of a set as repeated strings.
func (l *library) appendNames(b []byte, field protowire.Number, ids func(yield func(int32))) []byte {
	l.mu.RLock()
	defer l.mu.RUnlock()
	ids(func(id int32) { b = wire.AppendString(b, field, l.names[id]) })
	return b
}

// appendHeld appends initial_resource_versions: the resources of a type that a proxy has.
func (l *library) appendHeld(b []byte, held []int32) []byte {
	const initialVersions = 5
	l.mu.RLock()
	defer l.mu.RUnlock()
	for id, e := range held {
		if e > 0 {
			entry := wire.AppendString(nil, 1, l.names[id])
			entry = wire.AppendString(entry, 2, l.list[e].version)
			b = wire.AppendBytes(b, initialVersions, entry)
		}
	}
	return b
}
