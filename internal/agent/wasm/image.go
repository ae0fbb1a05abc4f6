package wasm

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// contentLayer is the media type of a layer that is a plain module (OCI artifact of the Wasm image
// specification).
const contentLayer = "application/vnd.module.wasm.content.layer.v1+wasm"

// fetchImage fetches a module from a registry: from the last layer of type contentLayer, or else
// from the last layer, in the form that extractModule accepts. The module's checksum is the digest
// of the image's manifest. It fails if there is no layer, or the layer or the module exceeds
// f.limit.
func (f *fetcher) fetchImage(ctx context.Context, what Module) ([]byte, error) {
	image, err := f.pullImage(ctx, what)
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, fmt.Errorf("read image manifest: %w", err)
	}
	if len(layers) == 0 {
		return nil, errors.New("the image has no layers")
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
	packed, err := layer.Compressed() // verifies the digest
	if err != nil {
		return nil, fmt.Errorf("read image layer: %w", err)
	}
	defer func() { _ = packed.Close() }()
	b, err := readLimited(packed, f.limit)
	if err != nil {
		return nil, fmt.Errorf("read image layer: %w", err)
	}
	return extractModule(b, f.limit)
}

// pullImage returns the image with its manifest. If a checksum is given, another digest of the
// image is an error, as is an invalid reference or pull secret. Without TLS it may reach only
// insecure hosts, localhost, and loopback and private IPv4 addresses. Certificates are verified
// unless the host is insecure.
func (f *fetcher) pullImage(ctx context.Context, what Module) (v1.Image, error) {
	var options []name.Option
	text := strings.TrimPrefix(what.URL, "oci://")
	host, _, _ := strings.Cut(text, "/")
	if f.isInsecure(host) {
		options = append(options, name.Insecure)
	}
	reference, err := name.ParseReference(text, options...)
	if err != nil {
		return nil, err
	}
	keys, err := parsePullSecret(what.PullSecret)
	if err != nil {
		return nil, err
	}
	image, err := remote.Image(reference,
		remote.WithContext(ctx), remote.WithTransport(f.transportFor(host)), remote.WithAuthFromKeychain(keys))
	if err != nil {
		return nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, fmt.Errorf("read image manifest: %w", err)
	}
	if what.Checksum != "" && digest.Hex != what.Checksum {
		return nil, fmt.Errorf("checksum mismatch: image digest is %s, want %s", digest.Hex, what.Checksum)
	}
	return image, nil
}

// credentials are those of a Secret of type kubernetes.io/dockerconfigjson, by its keys: hosts, or
// URLs with or without a scheme and a path.
type credentials map[string]authn.AuthConfig

var _ authn.Keychain = credentials{}

// parsePullSecret returns the credentials in a pull secret. The field auth overrides username and
// password. For an empty secret it returns the keychain of the agent's user: the files of Docker
// (DOCKER_CONFIG) and Podman (REGISTRY_AUTH_FILE), read at each pull. The error for a malformed
// secret does not contain the secret.
func parsePullSecret(secret []byte) (authn.Keychain, error) {
	if len(secret) == 0 {
		return authn.DefaultKeychain, nil
	}
	var given struct {
		Auths map[string]struct {
			Username, Password, Auth string
			IdentityToken            string `json:"identitytoken"`
			RegistryToken            string `json:"registrytoken"`
		} `json:"auths"`
	}
	if err := json.Unmarshal(secret, &given); err != nil {
		return nil, errors.New("pull secret is not a .dockerconfigjson") // without err, which may quote the secret
	}
	all := credentials{}
	for key, a := range given.Auths {
		c := authn.AuthConfig{
			Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken,
		}
		if a.Auth != "" {
			text, err := base64.StdEncoding.DecodeString(a.Auth)
			user, password, ok := strings.Cut(string(text), ":")
			if err != nil || !ok {
				return nil, fmt.Errorf("pull secret: auth of %s is not base64 of user:password", key)
			}
			c.Username, c.Password = user, password
		}
		all[key] = c
	}
	return all, nil
}

// registryHost returns the host in a key of a pull secret, which may be a URL with a scheme and a
// path.
func registryHost(text string) string {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "http://")
	host, _, _ := strings.Cut(text, "/")
	return host
}

// Resolve returns the credentials for a registry, or Anonymous if there are none. The key that is
// the registry's host has precedence, at Docker Hub the URL that docker login writes, and then the
// first key in order that is a URL of the host.
func (c credentials) Resolve(where authn.Resource) (authn.Authenticator, error) {
	host := where.RegistryStr()
	keys := []string{host}
	if host == name.DefaultRegistry {
		keys = []string{authn.DefaultAuthKey, host}
	}
	for _, key := range append(keys, slices.Sorted(maps.Keys(c))...) {
		if config, ok := c[key]; ok && registryHost(key) == host {
			return authn.FromConfig(config), nil
		}
	}
	return authn.Anonymous, nil
}
