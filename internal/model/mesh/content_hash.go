package mesh

import (
	"encoding/json"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/contenthash"
)

// HashEndpoints returns the content hash of a list of endpoints, which depends on their order. It
// hashes each field explicitly instead of encoding JSON, because it runs on every change of an
// endpoint.
func HashEndpoints(list []*Endpoint) uint64 {
	d := xxhash.New()
	var b contenthash.Buffer
	for _, e := range list {
		b = b[:0]
		e.appendTo(&b)
		_, _ = d.Write(b) // never fails
	}
	return d.Sum64()
}

// appendLocality appends the parts of l to b.
func appendLocality(b *contenthash.Buffer, l Locality) {
	b.Text(l.Region)
	b.Text(l.Zone)
	b.Text(l.SubZone)
}

// appendKey appends the parts of k to b.
func appendKey(b *contenthash.Buffer, k config.Key) {
	b.Text(string(k.Kind))
	b.Text(k.Namespace)
	b.Text(k.Name)
}

// appendTo appends all fields of e to b. The other addresses keep their order. Equal compares the
// same fields.
func (e *Endpoint) appendTo(b *contenthash.Buffer) {
	for _, s := range [...]string{
		e.Address, e.ServicePort, e.Account, e.Workload, e.Owner, e.Namespace, e.Hostname, e.Node,
		string(e.Network), string(e.Cluster), string(e.Health),
	} {
		b.Text(s)
	}
	appendLocality(b, e.Locality)
	b.Uint32(e.Port)
	b.Uint32(e.Weight)
	b.Bools(e.TLS, e.Confined, e.TLSDisabled)
	b.Texts(e.MoreAddresses)
	b.Map(e.Labels)
}

// appendTo appends all fields of w except its Hash to b.
func (w *Workload) appendTo(b *contenthash.Buffer) {
	for _, s := range [...]string{
		string(w.Provider), string(w.Cluster), w.Namespace, w.Name, w.Owner, w.Hostname, w.Subdomain, w.Account, w.Node,
		string(w.Network), string(w.Health),
	} {
		b.Text(s)
	}
	appendLocality(b, w.Locality)
	appendKey(b, w.From)
	b.Uint32(w.Weight)
	b.Bools(w.TLS, w.Ready)
	b.Texts(w.Addresses)
	b.Uint32s(w.Ports)
	appendNamedPorts(b, w.ContainerPorts)
	b.Map(w.Labels)
}

// contentHash returns the hash of the JSON of v, whose Hash field must be zero. JSON sorts map
// keys, so equal values have equal hashes. It panics if v cannot be encoded.
func contentHash(v any) uint64 {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("mesh: hash %T: %v", v, err)) // only plain data is passed
	}
	return xxhash.Sum64(b)
}
