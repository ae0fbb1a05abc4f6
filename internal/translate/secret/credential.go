package secret

import (
	"crypto/x509"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Credential contains the certificates of a Secret or ConfigMap, without its private key.
type Credential struct {
	Object config.Key
	// Chain is the certificate of a pair with its intermediates, Trusted are the authorities that
	// verify peers. Certificates that Go cannot parse are left out.
	Chain, Trusted []*x509.Certificate
	// From are the Gateways and DestinationRules that may refer to the object, sorted. A name
	// without a namespace may refer to an object of any namespace.
	From []config.Key
}

// Credentials returns at most limit credentials, which must be positive, in the Secrets, then
// remote Secrets, then ConfigMaps of a snapshot. It leaves out objects that neither are credentials
// nor are referenced as such, and objects without any certificate. A ConfigMap has trusted
// certificates only.
func Credentials(s *snapshot.Snapshot, limit int) []Credential {
	refs := snapshot.Derive(s.Derived, referencesKey{}, func() references { return referencesOf(s) })
	from := map[config.Key][]config.Key{}
	for _, r := range refs.list {
		for _, k := range r.keys() {
			from[k] = append(from[k], r.from.Key)
		}
	}
	var list []Credential
	for _, c := range slices.Concat(s.Configs(api.Secret), s.Configs(api.RemoteSecret), s.Configs(api.ConfigMap)) {
		if !isCredential(c) && !refs.includes(c.Key) {
			continue
		}
		k := localKey(c.Key)
		x := Credential{Object: c.Key, From: slices.Concat(from[k], from[config.Key{Kind: k.Kind, Name: k.Name}])}
		slices.SortFunc(x.From, config.Key.Compare)
		x.From = slices.Compact(x.From)
		data := dataOf(c)
		x.Trusted = certificatesIn(data, trustRows())
		if c.Kind != api.ConfigMap {
			x.Chain = certificatesIn(data, pairRows())
		}
		if len(x.Chain)+len(x.Trusted) == 0 {
			continue
		}
		if list = append(list, x); len(list) == limit {
			break
		}
	}
	return list
}

// certificatesIn returns the certificates under the first data key of the first complete row,
// except certificates that Go cannot parse. It returns nil if no row is complete.
func certificatesIn(data map[string][]byte, rows []row) []*x509.Certificate {
	r, faults := chooseRow(data, rows)
	if len(faults) > 0 {
		return nil
	}
	list, _ := certificatesOf(r.needed[0], data[r.needed[0]]) // Inspector reports the faults
	return slices.DeleteFunc(list, func(c *x509.Certificate) bool { return c == nil })
}
