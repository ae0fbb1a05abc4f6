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

// FileName is the name of the file below ProxyConfig.configPath, where Envoys do not replace each other.
const FileName = "envoy-rev.json"

// JSON gives the bootstrap as indented JSON. The same bootstrap gives the same bytes.
func JSON(b *bootstrapv3.Bootstrap) ([]byte, error) {
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

// Owner and Everyone are the permissions of files that the agent writes. Envoy runs as the agent's user, and its bootstrap may
// contain credentials that a user wrote. Applications beside the agent read gRPC's bootstrap as users of their own.
const (
	Owner    fs.FileMode = 0o600
	Everyone fs.FileMode = 0o644
)

// Write writes a bootstrap of Envoy into dir, readable by the agent's user only, and returns the path of the file. It creates
// dir if necessary. The file is replaced atomically.
func Write(dir, name string, body []byte) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("write bootstrap: %w", err)
	}
	path := filepath.Join(dir, name)
	if err := WriteFile(path, body, Owner); err != nil {
		return "", fmt.Errorf("write bootstrap: %w", err)
	}
	return path, nil
}

// WriteFile writes body to path with the permissions mode, whatever the umask is. It creates the directory if necessary. The
// file is replaced atomically: a reader sees the old content or the new one.
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
