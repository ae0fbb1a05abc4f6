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

// discoveryPath is the path of an issuer's discovery document (OpenID Connect Discovery 1.0,
// section 4).
const discoveryPath = "/.well-known/openid-configuration"

// documentReader fetches the keys of one source.
type documentReader struct {
	client     *http.Client
	parse      func(document []byte) (string, error)
	discovered string // jwks_uri of the last discovery document
}

// readKeys returns the fetched and parsed keys of a source. If the source names only an issuer, it
// first discovers their address, and keeps it in r.discovered until a call fails. An error of
// r.parse becomes a publicError, which may be shown to users.
func (r *documentReader) readKeys(ctx context.Context, source mesh.KeySource) (string, error) {
	uri := source.URI
	if uri == "" {
		if r.discovered == "" {
			found, err := r.discoverURI(ctx, source.Issuer)
			if err != nil {
				return "", err
			}
			r.discovered = found
		}
		uri = r.discovered
	}
	document, err := r.getDocument(ctx, uri)
	if err == nil {
		var keys string
		if keys, err = r.parse(document); err == nil {
			return keys, nil
		}
		err = publicError{err}
	}
	r.discovered = "" // discover again next time: the keys may have moved
	return "", err
}

// discoverURI fetches an issuer's discovery document and returns its jwks_uri. It returns an error
// if the issuer is not a URL with a host, or the document is unavailable, invalid or has no
// jwks_uri. It also refuses an address without TLS in the document of an https issuer.
func (r *documentReader) discoverURI(ctx context.Context, issuer string) (string, error) {
	from, err := url.Parse(issuer)
	if err != nil || from.Host == "" {
		return "", publicError{
			fmt.Errorf("issuer %.200q is not a URL, so its keys cannot be discovered: set jwksUri or jwks", issuer),
		}
	}
	document, err := r.getDocument(ctx, strings.TrimSuffix(issuer, "/")+discoveryPath)
	if err != nil {
		return "", err
	}
	var metadata struct {
		URI string `json:"jwks_uri"`
	}
	if json.Unmarshal(document, &metadata) != nil {
		return "", publicError{errors.New("the issuer's discovery document is invalid JSON")}
	}
	to, err := url.Parse(metadata.URI)
	switch {
	case err != nil || to.Host == "":
		return "", publicError{errors.New("the issuer's discovery document names no jwks_uri")}
	case from.Scheme == "https" && to.Scheme != "https":
		return "", publicError{errors.New("the issuer's discovery document names a jwks_uri without TLS")}
	}
	return metadata.URI, nil
}

// getDocument fetches a document. A status outside of 200 to 299 is a publicError with the status.
// The client bounds its addresses and size, ctx the time.
func (r *documentReader) getDocument(ctx context.Context, uri string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // nothing to report at this point
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return nil, publicError{fmt.Errorf("the server returned HTTP status %d", response.StatusCode)}
	}
	return io.ReadAll(response.Body) // bounded by the client
}
