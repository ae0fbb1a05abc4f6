package bootstrap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// FileName is the name of the file below ProxyConfig.configPath without hot restart.
const FileName = "envoy-rev.json"

// EncodeJSON returns the bootstrap as indented JSON, with the field names of the protobuf, that
// ends with a newline. The output is deterministic.
func EncodeJSON(b *bootstrapv3.Bootstrap) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode bootstrap: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil { // protojson's own spacing is random on purpose
		return nil, fmt.Errorf("encode bootstrap: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// Modes of files that the agent writes. Envoy's user owns its bootstrap, which may contain
// credentials. Applications beside the agent read the gRPC bootstrap as other users.
const (
	OwnerOnly     fs.FileMode = 0o600
	WorldReadable fs.FileMode = 0o644
)

// WriteBootstrap writes a bootstrap of Envoy to the file name in dir with mode OwnerOnly, and
// returns the path of the file. It creates dir, for the owner only, if necessary. The file is
// replaced atomically; after an error the old content is still there.
func WriteBootstrap(dir, name string, body []byte) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("write bootstrap: %w", err)
	}
	path := filepath.Join(dir, name)
	if err := WriteFile(path, body, OwnerOnly); err != nil {
		return "", fmt.Errorf("write bootstrap: %w", err)
	}
	return path, nil
}

// WriteFile writes body to path with the given mode, whatever the umask. It creates the directory
// if necessary. The file is replaced atomically: a reader sees either the old or the new content.
// After an error the old content is still there.
func WriteFile(path string, body []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".new-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails if the file has been renamed
	_, err = tmp.Write(body)
	if err := errors.Join(err, tmp.Chmod(mode), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
