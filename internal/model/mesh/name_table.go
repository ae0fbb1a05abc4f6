package mesh

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// NameTable contains the addresses of hosts for the DNS proxy in the agent. A wildcard applies to
// the names below it without an entry of their own. Its wire format is
// istio.networking.nds.v1.NameTable, whose only field is this map; it is the only resource of NDS.
type NameTable map[Hostname]NameEntry

// NameEntry is one entry of a NameTable (NameTable.NameInfo).
type NameEntry struct {
	// IPs are addresses of both families, in the order of preference.
	IPs []string
	// Registry is the registry of the host. For Kubernetes hosts the agent also answers the shorter
	// names.
	Registry Provider
	// ShortName and Namespace name a Kubernetes service ("reviews", "default"), or a pod below a
	// headless service ("web-0.web"). They are empty for other hosts.
	ShortName, Namespace string
}

// Field numbers of NameTable, of its map's entries, and of NameTable.NameInfo. Number 5, alt_hosts,
// was only experimental.
const (
	nameTableField     protowire.Number = 1
	nameHostField      protowire.Number = 1
	nameEntryField     protowire.Number = 2
	nameIPsField       protowire.Number = 1
	nameRegistryField  protowire.Number = 2
	nameShortField     protowire.Number = 3
	nameNamespaceField protowire.Number = 4
)

// AppendName appends an encoded entry of a NameTable. Entries that are appended in the order of
// their hosts, without duplicates, form the canonical encoding of the table.
func AppendName(b []byte, host Hostname, e NameEntry) []byte {
	value := e.size()
	b = protowire.AppendTag(b, nameTableField, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(textSize(string(host))+textTag+protowire.SizeBytes(value)))
	b = appendText(b, nameHostField, string(host))
	b = protowire.AppendTag(b, nameEntryField, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(value))
	for _, ip := range e.IPs {
		b = appendText(b, nameIPsField, ip)
	}
	for i, text := range e.texts() {
		if text != "" {
			b = appendText(b, nameRegistryField+protowire.Number(i), text)
		}
	}
	return b
}

// texts returns the fields from nameRegistryField on. They are the registry, the short name and the
// namespace.
func (e NameEntry) texts() [3]string { return [3]string{string(e.Registry), e.ShortName, e.Namespace} }

// size returns the size of the encoded entry in bytes. Empty texts take no space, empty addresses
// do.
func (e NameEntry) size() int {
	n := 0
	for _, ip := range e.IPs {
		n += textSize(ip)
	}
	for _, text := range e.texts() {
		if text != "" {
			n += textSize(text)
		}
	}
	return n
}

// textTag is the size of a tag, because all field numbers here are small.
const textTag = 1

// textSize returns the size in bytes of an encoded field that contains text. That includes the tag
// and the length.
func textSize(text string) int { return textTag + protowire.SizeBytes(len(text)) }

// appendText appends an encoded field that contains text.
func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

// Encode returns the canonical encoding, in the order of hosts, which is equal for equal tables.
func (t NameTable) Encode() []byte {
	var b []byte
	for _, host := range slices.Sorted(maps.Keys(t)) {
		b = AppendName(b, host, t[host])
	}
	return b
}

// DecodeNameTable decodes a NameTable. Unknown fields are ignored. If a host occurs twice, the last
// entry is used. It returns an error, and no table, for malformed encoding and for text that is not
// UTF-8. An empty text is an empty table.
func DecodeNameTable(b []byte) (NameTable, error) {
	t := NameTable{}
	err := wireFields(b, func(field protowire.Number, value []byte) error {
		if field != nameTableField {
			return nil
		}
		var host string
		var e NameEntry
		err := wireFields(value, func(field protowire.Number, value []byte) (err error) {
			switch field {
			case nameHostField:
				host, err = wireText(value)
			case nameEntryField:
				e, err = decodeNameEntry(value)
			}
			return err
		})
		t[Hostname(host)] = e
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("decode name table: %w", err)
	}
	return t, nil
}

// decodeNameEntry decodes an entry of a NameTable. Unknown fields are ignored. It returns an error
// for malformed encoding and for text that is not UTF-8. Of a field that occurs again, the last
// value counts; addresses are appended.
func decodeNameEntry(b []byte) (NameEntry, error) {
	var e NameEntry
	err := wireFields(b, func(field protowire.Number, value []byte) error {
		s, err := wireText(value)
		switch field {
		case nameIPsField:
			e.IPs = append(e.IPs, s)
		case nameRegistryField:
			e.Registry = Provider(s)
		case nameShortField:
			e.ShortName = s
		case nameNamespaceField:
			e.Namespace = s
		default:
			return nil
		}
		return err
	})
	return e, err
}

// wireFields calls f for every length-delimited field of a message, and returns its first error or
// that of malformed encoding. Other fields are skipped.
func wireFields(b []byte, f func(field protowire.Number, value []byte) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(field, value); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

var errNotText = errors.New("text is not UTF-8")

// wireText returns the text of a field, or errNotText if it is not UTF-8.
func wireText(b []byte) (string, error) {
	if !utf8.Valid(b) {
		return "", errNotText
	}
	return string(b), nil
}
