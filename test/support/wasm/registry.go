package wasm

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
)

// moduleLayer is the media type of an image's layer that is a module.
const moduleLayer = "application/vnd.module.wasm.content.layer.v1+wasm"

// Registry is a registry of images that requires a name and a password for every request (HTTP's
// Basic scheme).
type Registry struct {
	// Host is its address, "127.0.0.1:5000".
	Host string

	t      testing.TB
	images http.Handler

	mu sync.Mutex
	// password is of the user "puller".
	password string
	refused  int
}

const user = "puller"

// StartRegistry starts a registry until the test ends. If the listener is nil, it listens on a
// loopback address.
func StartRegistry(t testing.TB, l net.Listener, password string) *Registry {
	r := &Registry{t: t, password: password, images: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		who, secret, ok := q.BasicAuth()
		r.mu.Lock()
		in := ok && who == user && secret == r.password
		if !in && ok {
			r.refused++
		}
		r.mu.Unlock()
		if !in {
			w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
			http.Error(w, `{"errors": [{"code": "UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
		r.images.ServeHTTP(w, q)
	}))
	if l != nil {
		_ = server.Listener.Close() // nothing was served on it
		server.Listener = l
	}
	server.Start()
	t.Cleanup(server.Close)
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// SetPassword replaces the password that the registry accepts.
func (r *Registry) SetPassword(password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.password = password
}

// Refused returns the number of requests with a wrong name or password.
func (r *Registry) Refused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// Login returns the .dockerconfigjson of a Secret with that password.
func (r *Registry) Login(password string) string {
	text, err := json.Marshal(
		map[string]any{"auths": map[string]any{r.Host: map[string]string{"username": user, "password": password}}},
	)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// Push puts an image with a module to a path ("/shop/filter:v1"), and returns its digest in
// hexadecimal.
func (r *Registry) Push(path string, module []byte) string {
	r.t.Helper()
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(module, moduleLayer))
	if err != nil {
		r.t.Fatal(err)
	}
	to, err := name.ParseReference(r.Host+path, name.Insecure)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := remote.Write(to, image, remote.WithTransport(directly{r.images})); err != nil {
		r.t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		r.t.Fatal(err)
	}
	return digest.Hex
}

// directly has requests answered by a handler, wherever they are for.
type directly struct{ http.Handler }

func (d directly) RoundTrip(q *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if q.Body == nil {
		q.Body = http.NoBody // as servers have it
	}
	d.ServeHTTP(w, q)
	answer := w.Result()
	answer.Request = q
	return answer, nil
}
