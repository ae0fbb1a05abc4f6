package bootstrap

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// Write puts the bytes into the directory, which it makes if need be, and gives the file's path. A reader sees the old
// file or the new one, never half of one.
func Write(dir, name string, body []byte) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("write bootstrap: %w", err)
	}
	path := filepath.Join(dir, name)
	if err := WriteFile(path, body); err != nil {
		return "", fmt.Errorf("write bootstrap: %w", err)
	}
	return path, nil
}

// WriteFile puts bytes at a path whose directory it makes if need be. A reader sees the old file or the new one.
func WriteFile(path string, body []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone already if all went well
	_, err = tmp.Write(body)
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
