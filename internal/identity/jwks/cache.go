package jwks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/jwks/keyset"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// KeyCache stores fetched keys between runs of the control plane and for its replicas. Without it,
// a control plane that restarts while an issuer is unavailable would remove the issuer's keys from
// proxies.
type KeyCache interface {
	// String returns the location for logs.
	String() string
	// Load returns the cached data, or nil if there is none.
	Load(ctx context.Context) ([]byte, error)
	// Update replaces the data by the result of update on the current data. It returns an error if
	// the data changed concurrently.
	Update(ctx context.Context, update func([]byte) []byte) error
}

const (
	// cacheTTL is the maximum age of cached keys. After a longer outage of the issuer, keys that it
	// has withdrawn must not be accepted.
	cacheTTL = 24 * time.Hour
	// maxClockSkew is the tolerated clock difference between replicas.
	maxClockSkew = 5 * time.Minute
	// maxCacheBytes bounds the cached data. A ConfigMap holds at most 1 MiB.
	maxCacheBytes = 512 << 10
)

// cachedKeys are the keys of a source with the time of their fetch.
type cachedKeys struct {
	Text      string
	FetchedAt time.Time
}

// cacheRecord is the JSON form of one source in a KeyCache.
type cacheRecord struct {
	URI       string          `json:"uri,omitempty"`
	Issuer    string          `json:"issuer,omitempty"`
	FetchedAt time.Time       `json:"at"`
	Keys      json.RawMessage `json:"keys"`
}

// parseCache returns the keys by source in the data of a KeyCache, which is not trusted; empty data
// have none. It parses keys as if the issuer had just published them, so that symmetric and private
// keys are dropped. Records that are too old, from the future or invalid are skipped; of several of
// a source the latest is used. It returns an error if the data are too large or no JSON.
func parseCache(text []byte, now time.Time) (map[mesh.KeySource]cachedKeys, error) {
	var list []cacheRecord
	all := map[mesh.KeySource]cachedKeys{}
	if len(text) == 0 {
		return all, nil
	}
	if len(text) > maxCacheBytes {
		return nil, fmt.Errorf("the cached keys have %d bytes, more than %d", len(text), maxCacheBytes)
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("parse cached keys: %w", err)
	}
	for _, p := range list {
		source := mesh.KeySource{URI: p.URI, Issuer: p.Issuer}
		if (p.URI == "") == (p.Issuer == "") || now.Sub(p.FetchedAt) > cacheTTL ||
			p.FetchedAt.Sub(now) > maxClockSkew ||
			all[source].FetchedAt.After(p.FetchedAt) {
			continue
		}
		if keys, err := keyset.ParsePublished(p.Keys); err == nil {
			all[source] = cachedKeys{keys, p.FetchedAt}
		}
	}
	return all, nil
}

// mergeCache returns the data of a KeyCache with the keys in news added to old. Of each source the
// latest keys are kept, whichever replica fetched them. Old data and records that parseCache
// refuses or skips are dropped. Beyond maxCacheBytes the oldest records are dropped.
func mergeCache(old []byte, news map[mesh.KeySource]cachedKeys, now time.Time) []byte {
	all, err := parseCache(old, now)
	if err != nil {
		all = map[mesh.KeySource]cachedKeys{} // invalid data is replaced
	}
	for source, k := range news {
		if !all[source].FetchedAt.After(k.FetchedAt) {
			all[source] = k
		}
	}
	sources := slices.SortedFunc(maps.Keys(all), func(a, b mesh.KeySource) int {
		return cmp.Or(all[b].FetchedAt.Compare(all[a].FetchedAt), compareSources(a, b))
	})
	size, list := 0, []cacheRecord{}
	for _, p := range sources {
		size += len(p.URI) + len(p.Issuer) + len(all[p].Text) + 100 // JSON names and the time
		if size > maxCacheBytes {
			break
		}
		list = append(
			list,
			cacheRecord{p.URI, p.Issuer, all[p].FetchedAt.UTC().Truncate(time.Second), json.RawMessage(all[p].Text)},
		)
	}
	slices.SortFunc(list, func(a, b cacheRecord) int {
		return cmp.Or(cmp.Compare(a.URI, b.URI), cmp.Compare(a.Issuer, b.Issuer))
	})
	text, err := json.Marshal(list)
	if err != nil {
		return old // cannot happen: canonical keys are JSON
	}
	return text
}
