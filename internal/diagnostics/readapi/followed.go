package readapi

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// maxAudiences limits the audiences for which a document is kept.
const maxAudiences = 100

// audience identifies clients that get the same answers to the same request R: they have the same
// rights here, and send the same credentials to other replicas.
type audience[R comparable] struct {
	caller      debug.Caller
	credentials [sha256.Size]byte // hash
	request     R
}

// newAudience returns the audience of a request by a caller with this Authorization header.
func newAudience[R comparable](caller debug.Caller, credentials string, request R) audience[R] {
	return audience[R]{caller, sha256.Sum256([]byte(credentials)), request}
}

// audienceOf returns the audience of the client of ctx.
func audienceOf[R comparable](ctx context.Context, request R) audience[R] {
	credentials, _ := ctx.Value(credentialsKey{}).(string)
	return newAudience(callerOf(ctx), credentials, request)
}

// followedDocuments keeps, for each audience, the newest version of a document that clients follow. All
// clients of an audience are sent the same bytes, so 20 open consoles cost little more than one. A
// document is made of the answer of this replica in an edition E, and of the answers P of others.
type followedDocuments[R, E comparable, P any] struct {
	mu   sync.Mutex
	kept map[audience[R]]*followed[E, P]
}

// followed is the newest version of a document for one audience.
type followed[E comparable, P any] struct {
	mu      sync.Mutex
	edition E
	peers   P
	asked   time.Time // when the peers were asked
	newest  *document
}

// entryFor returns the document of an audience, which it creates if missing. If there are too many
// then, it evicts the documents of all other audiences.
func (f *followedDocuments[R, E, P]) entryFor(x audience[R]) *followed[E, P] {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.kept[x]
	if d == nil {
		if f.kept == nil || len(f.kept) >= maxAudiences {
			f.kept = map[audience[R]]*followed[E, P]{}
		}
		d = &followed[E, P]{}
		f.kept[x] = d
	}
	return d
}

// update returns the document. It calls ask for the answers of other replicas if the last ones are
// older than interval, and build to make the document again if they were asked, or edition differs
// from that of the last call. An error of encoding is returned, and the former document stays.
func (f *followed[E, P]) update(
	now time.Time, edition E, interval time.Duration, ask func() P, build func(peers P) any,
) (*document, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := now.Sub(f.asked) >= interval
	if f.newest != nil && f.edition == edition && !due {
		return f.newest, nil
	}
	if due {
		f.peers, f.asked = ask(), now
	}
	next, err := newDocument(build(f.peers))
	if err != nil {
		return nil, err
	}
	f.newest, f.edition = next, edition
	return next, nil
}
