package jwks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// discoveryPath is where issuers say where their keys are (OpenID Connect Discovery 1.0, section 4).
const discoveryPath = "/.well-known/openid-configuration"

// reader reads the keys of one place.
type reader struct {
	client *http.Client
	text   func(document []byte) (string, error)
	found  string // where the discovery document said that the keys are
}

func (r *reader) read(ctx context.Context, place mesh.KeySource) (string, error) {
	uri := place.URI
	if uri == "" {
		if r.found == "" {
			found, err := r.discover(ctx, place.Issuer)
			if err != nil {
				return "", err
			}
			r.found = found
		}
		uri = r.found
	}
	document, err := r.get(ctx, uri)
	if err == nil {
		var keys string
		if keys, err = r.text(document); err == nil {
			return keys, nil
		}
		err = content{err}
	}
	r.found = "" // they may have moved
	return "", err
}

// discover asks an issuer where its keys are.
func (r *reader) discover(ctx context.Context, issuer string) (string, error) {
	from, err := url.Parse(issuer)
	if err != nil || from.Host == "" {
		return "", content{fmt.Errorf("issuer %.200q is no URL, so that there is nobody to ask where its keys are: set jwksUri or jwks", issuer)}
	}
	document, err := r.get(ctx, strings.TrimSuffix(issuer, "/")+discoveryPath)
	if err != nil {
		return "", err
	}
	var said struct {
		URI string `json:"jwks_uri"`
	}
	if json.Unmarshal(document, &said) != nil {
		return "", content{errors.New("the issuer's discovery document is none")}
	}
	to, err := url.Parse(said.URI)
	switch {
	case err != nil || to.Host == "":
		return "", content{errors.New("the issuer's discovery document names no jwks_uri")}
	case from.Scheme == "https" && to.Scheme != "https":
		return "", content{errors.New("the issuer's discovery document leads out of TLS")}
	}
	return said.URI, nil
}

// get reads a small document. The client bounds where it may come from and how much it may be, the context how long that may take.
func (r *reader) get(ctx context.Context, uri string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	answer, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it was read, or is given up
	if answer.StatusCode != http.StatusOK {
		return nil, content{fmt.Errorf("the server answered %d", answer.StatusCode)}
	}
	return io.ReadAll(answer.Body) // bounded by the client
}
