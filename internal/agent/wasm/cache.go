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
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// maxDisk bounds the modules that are kept on disk, all together, in bytes.
const maxDisk = 1 << 30

const (
	extension = ".wasm"
	// unfinished begins the names of files that are being written.
	unfinished = ".new-"
	// leftover is the age from which on a file that nobody knows is of an agent that is gone.
	leftover = time.Minute
)

// Module is what an extension asks for.
type Module struct {
	// URL is http, https or oci.
	URL string
	// Checksum is a SHA-256 in hexadecimal: of the module or, of an image, its digest. "" is any.
	Checksum string
	// Fresh asks the server even if the module is here (imagePullPolicy Always), once for each Version of the plugin.
	Fresh   bool
	Version string
	// PullSecret is a .dockerconfigjson; empty: none.
	PullSecret []byte
	// Timeout bounds fetching it.
	Timeout time.Duration
}

// Options are what a Cache works with.
type Options struct {
	// Dir is where modules are kept.
	Dir string
	// Expiry is how long a module stays that nobody asks for, Purge how often that is looked at.
	Expiry, Purge time.Duration
	// Retries is how often a web server that fails is asked again.
	Retries int
	// Timeout bounds a module's fetching where the module does not say.
	Timeout time.Duration
	// Insecure are registries that are asked without TLS, or without looking at who they are.
	Insecure []string
	Dialer   *net.Dialer
	Metrics  *Metrics
	Log      *slog.Logger
}

// Cache has modules as files. It is for use by many goroutines.
type Cache struct {
	o     Options
	fetch fetcher
	under singleflight.Group

	mu    sync.Mutex
	files map[string]*entry // by key
	last  map[string]used   // by extension
}

// used is which file an extension was last given, and for what.
type used struct{ url, checksum, path string }

// entry is a file of the cache.
type entry struct {
	path string
	size int64
	used time.Time
	// version is of the plugin that it was last fetched for.
	version string
}

// fetcher gets modules from elsewhere.
type fetcher struct {
	transport *http.Transport
	retries   int
	insecure  map[string]bool
	// limit is maxModule, or less in tests.
	limit int64
}

// NewCache makes one. What is in the directory from before is not used: it may be anybody's.
func NewCache(o Options) *Cache {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	c := &Cache{o: o, files: map[string]*entry{}, last: map[string]used{}, fetch: fetcher{transport: transport(o.Dialer), retries: o.Retries, insecure: map[string]bool{}, limit: maxModule}}
	for _, host := range o.Insecure {
		c.fetch.insecure[host] = true
	}
	return c
}

// key is what a module is kept by. A pull secret is part of it: whoever has none must not get what another one's opened.
func (m Module) key() string {
	h := sha256.New()
	for _, part := range []string{m.URL, m.Checksum, string(m.PullSecret)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// note remembers what an extension was given.
func (c *Cache) note(extension string, m Module, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[extension] = used{m.URL, m.Checksum, path}
}

// before gives the file that an extension had for the same address and checksum, "" if there is none: when it cannot be fetched again, for
// a pull secret that was changed or a policy that asks each time, what is there is as good as it was.
func (c *Cache) before(extension string, m Module) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.last[extension]
	if u.url != m.URL || u.checksum != m.Checksum {
		return ""
	}
	if _, err := os.Stat(u.path); err != nil {
		return ""
	}
	return u.path
}

// File gives the path of a module's file, and fetches it if need be. Several that ask for one at a time wait for one fetch.
func (c *Cache) File(ctx context.Context, m Module) (string, error) {
	key := m.key()
	if path, ok := c.known(key, m); ok {
		c.o.Metrics.lookups.WithLabelValues("true").Inc()
		return path, nil
	}
	c.o.Metrics.lookups.WithLabelValues("false").Inc()
	result := c.under.DoChan(key, func() (any, error) {
		timeout := m.Timeout
		if timeout <= 0 {
			timeout = c.o.Timeout
		}
		// Whoever began it may go away; the others wait all the same.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return c.fetched(ctx, key, m)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return "", r.Err
		}
		return r.Val.(string), nil //nolint:forcetypeassert // of fetched
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (c *Cache) known(key string, m Module) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.files[key]
	if !ok || m.Fresh && e.version != m.Version {
		return "", false
	}
	if _, err := os.Stat(e.path); err != nil { // somebody cleaned up
		delete(c.files, key)
		return "", false
	}
	e.used = time.Now()
	return e.path, true
}

func (c *Cache) fetched(ctx context.Context, key string, m Module) (string, error) {
	b, err := c.get(ctx, m)
	if err != nil {
		c.o.Metrics.fetches.WithLabelValues("download_failure").Inc()
		return "", fmt.Errorf("fetch Wasm module %s: %w", shown(m.URL), err)
	}
	sum := sha256.Sum256(b)
	path := filepath.Join(c.o.Dir, hex.EncodeToString(sum[:])+extension)
	if err := write(path, b); err != nil {
		return "", fmt.Errorf("keep Wasm module: %w", err)
	}
	c.o.Metrics.fetches.WithLabelValues("success").Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[key] = &entry{path: path, size: int64(len(b)), used: time.Now(), version: m.Version}
	c.shrink()
	c.o.Log.Info("Wasm module fetched", "from", shown(m.URL), "bytes", len(b))
	return path, nil
}

// shown is an address without what may be secret in it.
func shown(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "of an address that cannot be read"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

func (c *Cache) get(ctx context.Context, m Module) ([]byte, error) {
	switch scheme, _, _ := strings.Cut(m.URL, "://"); scheme {
	case "http", "https":
		return c.fetch.byHTTP(ctx, m)
	case "oci":
		return c.fetch.byImage(ctx, m)
	default:
		return nil, errors.New("want an address of http, https or oci")
	}
}

// write puts bytes at a path, unless they are there: the name is made of them.
func write(path string, b []byte) error {
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(b)) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), unfinished+"*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone already if all went well
	_, err = tmp.Write(b)
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// shrink drops those that nobody asked for longest, until the rest is not too much.
func (c *Cache) shrink() {
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
		c.drop(key)
	}
	c.o.Metrics.entries.Set(float64(len(c.files)))
}

// drop forgets a module, and removes its file if no other one is the same.
func (c *Cache) drop(key string) {
	path := c.files[key].path
	delete(c.files, key)
	for _, e := range c.files {
		if e.path == path {
			return
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.o.Log.Warn("a Wasm module stays on disk", "error", err)
	}
}

// Run drops modules that nobody asks for any more, until the context ends.
func (c *Cache) Run(ctx context.Context) error {
	c.sweep(time.Now())
	tick := time.NewTicker(c.o.Purge)
	defer tick.Stop()
	defer c.fetch.transport.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			c.purge(now)
		}
	}
}

// sweep removes what an agent before this one left.
func (c *Cache) sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ours := map[string]bool{}
	for _, e := range c.files {
		ours[filepath.Base(e.path)] = true
	}
	found, _ := os.ReadDir(c.o.Dir) // there is none before the first module
	for _, f := range found {
		info, err := f.Info()
		if err != nil || ours[f.Name()] || now.Sub(info.ModTime()) < leftover {
			continue
		}
		if filepath.Ext(f.Name()) == extension || strings.HasPrefix(f.Name(), unfinished) {
			_ = os.Remove(filepath.Join(c.o.Dir, f.Name())) // it is looked at again by the next agent
		}
	}
}

func (c *Cache) purge(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.files {
		if now.Sub(e.used) > c.o.Expiry {
			c.drop(key)
		}
	}
	c.o.Metrics.entries.Set(float64(len(c.files)))
}
