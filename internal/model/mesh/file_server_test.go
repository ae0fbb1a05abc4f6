package mesh

import "testing"

func TestFileServer(t *testing.T) {
	for _, tt := range []struct {
		name     string
		metadata NodeMetadata
		want     string
	}{
		{"no agent", NodeMetadata{}, ""},
		{"an agent", NodeMetadata{IstioVersion: "1.28.0"}, "sds-grpc"},
		{"an agent without an identity", NodeMetadata{IstioVersion: "1.28.0", Identity: "none"}, "sds-grpc"},
		{"an agent beside another server of identities", NodeMetadata{IstioVersion: "1.28.0", FileCredential: "true"}, "sds-files-grpc"},
	} {
		if got := tt.metadata.FileServer(); got != tt.want {
			t.Errorf("%s: asked by %q, want %q", tt.name, got, tt.want)
		}
	}
}
