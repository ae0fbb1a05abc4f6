package wasm

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// contentLayer is the media type of a layer that is a module, unpacked (OCI artifact of the Wasm specification for images).
const contentLayer = "application/vnd.module.wasm.content.layer.v1+wasm"

// byImage fetches a module from a registry: an artifact that is the module, or an image with the file plugin.wasm in its last
// layer. The checksum is the image's.
func (f *fetcher) byImage(ctx context.Context, what Module) ([]byte, error) {
	image, err := f.image(ctx, what)
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if len(layers) == 0 {
		return nil, errors.New("the image has no layer")
	}
	layer := layers[len(layers)-1]
	for _, l := range layers {
		if kind, err := l.MediaType(); err == nil && kind == contentLayer {
			layer = l
		}
	}
	if size, err := layer.Size(); err != nil || size > f.limit {
		return nil, errors.Join(errTooBig, err)
	}
	packed, err := layer.Compressed() // which checks the digest
	if err != nil {
		return nil, fmt.Errorf("read a layer: %w", err)
	}
	defer func() { _ = packed.Close() }()
	b, err := bounded(packed, f.limit)
	if err != nil {
		return nil, fmt.Errorf("read a layer: %w", err)
	}
	return unpack(b, f.limit)
}

func (f *fetcher) image(ctx context.Context, what Module) (v1.Image, error) {
	var options []name.Option
	text := strings.TrimPrefix(what.URL, "oci://")
	host, _, _ := strings.Cut(text, "/")
	if f.insecure[host] {
		options = append(options, name.Insecure)
	}
	reference, err := name.ParseReference(text, options...)
	if err != nil {
		return nil, err
	}
	keys, err := keychain(what.PullSecret)
	if err != nil {
		return nil, err
	}
	image, err := remote.Image(reference, remote.WithContext(ctx), remote.WithTransport(f.transport), remote.WithAuthFromKeychain(keys))
	if err != nil {
		return nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if what.Checksum != "" && digest.Hex != what.Checksum {
		return nil, fmt.Errorf("the image's digest is %s, and should be %s", digest.Hex, what.Checksum)
	}
	return image, nil
}

// credentials are those of a Secret of type kubernetes.io/dockerconfigjson, by host.
type credentials map[string]authn.AuthConfig

var _ authn.Keychain = credentials{}

// keychain reads a pull secret; an empty one has no credentials.
func keychain(secret []byte) (authn.Keychain, error) {
	if len(secret) == 0 {
		return authn.NewMultiKeychain(), nil
	}
	var given struct {
		Auths map[string]struct {
			Username, Password, Auth string
			IdentityToken            string `json:"identitytoken"`
		} `json:"auths"`
	}
	if err := json.Unmarshal(secret, &given); err != nil {
		return nil, errors.New("the pull secret is no .dockerconfigjson") // the error may quote it
	}
	all := credentials{}
	for host, a := range given.Auths {
		c := authn.AuthConfig{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken}
		if a.Auth != "" {
			text, err := base64.StdEncoding.DecodeString(a.Auth)
			user, password, ok := strings.Cut(string(text), ":")
			if err != nil || !ok {
				return nil, fmt.Errorf("the pull secret's entry for %s is not that of a user", host)
			}
			c.Username, c.Password = user, password
		}
		all[registryHost(host)] = c
	}
	return all, nil
}

// registryHost is the host that an entry is for: some are written as addresses.
func registryHost(text string) string {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "http://")
	host, _, _ := strings.Cut(text, "/")
	return host
}

// Resolve gives the credentials for a registry, nobody's for one that has none.
func (c credentials) Resolve(where authn.Resource) (authn.Authenticator, error) {
	if config, ok := c[where.RegistryStr()]; ok {
		return authn.FromConfig(config), nil
	}
	return authn.Anonymous, nil
}
