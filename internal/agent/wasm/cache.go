package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// maxDisk bounds the total size of all cached modules, in bytes.
const maxDisk = 1 << 30

const (
	extension = ".wasm"
	// tempPrefix is the prefix of files that are being written.
	tempPrefix = ".new-"
	// staleAge is the age from which a file that is not in the cache is assumed to be left over by
	// an earlier agent.
	staleAge = time.Minute
)

// Module identifies a remote module and how to fetch it.
type Module struct {
	// URL is http, https or oci.
	URL string
	// Checksum is the expected SHA-256 in hexadecimal: of the module or, for oci, of the image's
	// manifest. If empty, it is not checked.
	Checksum string
	// AlwaysFetch fetches the module even if it is cached (imagePullPolicy Always), once per
	// Version of the plugin.
	AlwaysFetch bool
	Version     string
	// PullSecret is a .dockerconfigjson. If empty, the keychain of the agent's user is used.
	PullSecret []byte
	// Timeout bounds the fetch. If 0, Options.Timeout applies.
	Timeout time.Duration
}

// Options configure a Cache.
type Options struct {
	// Dir is the directory of the cached modules.
	Dir string
	// Expiry is how long an unused module stays cached. PurgeInterval is how often expired ones are
	// evicted.
	Expiry, PurgeInterval time.Duration
	// Retries is how often a failed HTTP request is retried.
	Retries int
	// Timeout is the default timeout of a fetch.
	Timeout time.Duration
	// InsecureRegistries are the hosts of registries and servers whose certificates are not
	// verified. Registries among them may be without TLS. "*" is every host.
	InsecureRegistries []string
	Dialer             *net.Dialer
	// Own makes Envoy's user the owner of a file. If nil, files stay with the agent's user.
	Own     func(path string) error
	Metrics *Metrics
	Log     *slog.Logger
}

// Cache fetches modules and caches them as files. It is safe for concurrent use.
type Cache struct {
	o     Options
	fetch fetcher
	group singleflight.Group

	mu       sync.Mutex
	files    map[string]*entry  // by cache key; replaced versions by path
	lastUsed map[string]lastUse // by name of the extension
}

// lastUse is the last configured file of an extension, and the module's URL and checksum.
type lastUse struct{ url, checksum, path string }

// entry is a cached module.
type entry struct {
	path string
	size int64
	used time.Time
	// version is the version of the plugin for which it was last fetched.
	version string
}

// NewCache returns an empty Cache. Files that exist in the directory are not used, because any
// process may have written them.
func NewCache(o Options) *Cache {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if o.Own == nil {
		o.Own = func(string) error { return nil }
	}
	return &Cache{o: o, files: map[string]*entry{}, lastUsed: map[string]lastUse{}, fetch: newFetcher(o)}
}

// cacheKey returns the key under which a module is cached. It includes the pull secret, so that a
// plugin cannot use a module that only another plugin's secret may pull.
func (m Module) cacheKey() string {
	h := sha256.New()
	for _, part := range []string{m.URL, m.Checksum, string(m.PullSecret)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// recordUse records, in place of an earlier use, the module and file that an extension is
// configured with.
func (c *Cache) recordUse(extension string, m Module, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastUsed[extension] = lastUse{m.URL, m.Checksum, path}
}

// lastFile returns the file that an extension last had for the same URL and checksum, or "" if
// there is none or the file was deleted. It is the fallback if the module cannot be fetched again,
// because of a changed pull secret or AlwaysFetch.
func (c *Cache) lastFile(extension string, m Module) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.lastUsed[extension]
	if u.url != m.URL || u.checksum != m.Checksum {
		return ""
	}
	if _, err := os.Stat(u.path); err != nil {
		return ""
	}
	return u.path
}

// FilePath returns the path of a module's file. It fetches a module that is not cached, and one
// with AlwaysFetch whose version differs from the cached one. A fetch takes at most m.Timeout, by
// default Options.Timeout; concurrent calls for the same module share one, which continues after
// the end of ctx. It counts hits and misses, and returns an error if the fetch fails or ctx ends.
func (c *Cache) FilePath(ctx context.Context, m Module) (string, error) {
	key := m.cacheKey()
	if path, ok := c.lookup(key, m); ok {
		c.o.Metrics.lookups.WithLabelValues("true").Inc()
		return path, nil
	}
	c.o.Metrics.lookups.WithLabelValues("false").Inc()
	result := c.group.DoChan(key, func() (any, error) {
		if path, ok := c.lookup(key, m); ok { // another fetch has ended since
			return path, nil
		}
		timeout := m.Timeout
		if timeout <= 0 {
			timeout = c.o.Timeout
		}
		// The caller that started the fetch may give up while others still wait for it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return c.fetchAndStore(ctx, key, m)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return "", r.Err
		}
		return r.Val.(string), nil //nolint:forcetypeassert // returned by fetchAndStore
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// lookup returns the file of a cached module, and whether it may be used without a fetch. It may
// not if the module is not cached or its file was deleted, or if m.AlwaysFetch is set and the
// cached version is not m.Version. lookup marks the module as used, or removes it from the cache if
// its file was deleted.
func (c *Cache) lookup(key string, m Module) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.files[key]
	if !ok || m.AlwaysFetch && e.version != m.Version {
		return "", false
	}
	if _, err := os.Stat(e.path); err != nil { // deleted by another process
		delete(c.files, key)
		return "", false
	}
	e.used = time.Now()
	return e.path, true
}

// fetchAndStore fetches a module, writes its file, adds it to the cache under key and returns the
// file's path. An earlier version of the module stays cached by its path until it is evicted,
// because an extension may use it. It may evict other modules to stay within the limit. It counts
// successes and failed downloads, but not files that cannot be written.
func (c *Cache) fetchAndStore(ctx context.Context, key string, m Module) (string, error) {
	b, err := c.fetchModule(ctx, m)
	if err != nil {
		c.o.Metrics.fetches.WithLabelValues("download_failure").Inc()
		return "", fmt.Errorf("fetch Wasm module %s: %w", redactURL(m.URL), err)
	}
	sum := sha256.Sum256(b)
	path := filepath.Join(c.o.Dir, hex.EncodeToString(sum[:])+extension)
	if err := writeOnce(path, b, c.o.Own); err != nil {
		return "", fmt.Errorf("write Wasm module: %w", err)
	}
	c.o.Metrics.fetches.WithLabelValues("success").Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.files[key]; old != nil && old.path != path {
		c.files[old.path] = old
	}
	c.files[key] = &entry{path: path, size: int64(len(b)), used: time.Now(), version: m.Version}
	c.enforceDiskLimit()
	c.o.Log.Info("Wasm module fetched", "from", redactURL(m.URL), "bytes", len(b))
	return path, nil
}

// redactURL returns a URL without user and query, which may contain secrets. It returns "(invalid
// URL)" if it cannot be parsed.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(invalid URL)"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// fetchModule fetches a module by the scheme of its URL: http, https or oci. Others are an error.
func (c *Cache) fetchModule(ctx context.Context, m Module) ([]byte, error) {
	switch scheme, _, _ := strings.Cut(m.URL, "://"); scheme {
	case "http", "https":
		return c.fetch.fetchHTTP(ctx, m)
	case "oci":
		return c.fetch.fetchImage(ctx, m)
	default:
		return nil, errors.New("unsupported URL scheme: want http, https or oci")
	}
}

// writeOnce atomically writes a file whose name contains the hash of its content, and calls own for
// it. It does nothing if the file exists with the same size. It creates the directory if necessary.
// After an error it leaves no temporary file.
func writeOnce(path string, b []byte, own func(path string) error) error {
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(b)) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), tempPrefix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails if the file has been renamed
	_, err = tmp.Write(b)
	if err := errors.Join(err, tmp.Close(), own(tmp.Name())); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// enforceDiskLimit evicts the least recently used modules until the total size is at most maxDisk.
// The most recent one always stays. It updates the number of entries in the metrics. c.mu must be
// held.
func (c *Cache) enforceDiskLimit() {
	byUse := make([]string, 0, len(c.files))
	var sum int64
	for key, e := range c.files {
		byUse = append(byUse, key)
		sum += e.size
	}
	slices.SortFunc(byUse, func(a, b string) int { return c.files[a].used.Compare(c.files[b].used) })
	for _, key := range byUse[:max(len(byUse)-1, 0)] {
		if sum <= maxDisk {
			break
		}
		sum -= c.files[key].size
		c.evict(key)
	}
	c.o.Metrics.entries.Set(float64(len(c.files)))
}

// evict removes a module from the cache, and its file unless another entry has the same. c.mu must
// be held. A failure to delete the file is only logged.
func (c *Cache) evict(key string) {
	path := c.files[key].path
	delete(c.files, key)
	for _, e := range c.files {
		if e.path == path {
			return
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.o.Log.Warn("cannot remove Wasm module from disk", "error", err)
	}
}

// Run removes old files of earlier agents once (removeStaleFiles), and evicts expired modules every
// PurgeInterval until ctx ends. It always returns nil.
func (c *Cache) Run(ctx context.Context) error {
	c.removeStaleFiles(time.Now())
	tick := time.NewTicker(c.o.PurgeInterval)
	defer tick.Stop()
	defer c.fetch.closeIdle()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			c.evictExpired(now)
		}
	}
}

// removeStaleFiles removes modules and temporary files that an earlier agent left in the directory,
// if they are older than staleAge. Failures are ignored.
func (c *Cache) removeStaleFiles(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ours := map[string]bool{}
	for _, e := range c.files {
		ours[filepath.Base(e.path)] = true
	}
	found, _ := os.ReadDir(c.o.Dir) // fails before the first module is written
	for _, f := range found {
		info, err := f.Info()
		if err != nil || ours[f.Name()] || now.Sub(info.ModTime()) < staleAge {
			continue
		}
		if filepath.Ext(f.Name()) == extension || strings.HasPrefix(f.Name(), tempPrefix) {
			_ = os.Remove(filepath.Join(c.o.Dir, f.Name())) // retried by the next agent
		}
	}
}

// evictExpired evicts modules that were not used for longer than Options.Expiry. It updates the
// number of entries in the metrics.
func (c *Cache) evictExpired(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.files {
		if now.Sub(e.used) > c.o.Expiry {
			c.evict(key)
		}
	}
	c.o.Metrics.entries.Set(float64(len(c.files)))
}
