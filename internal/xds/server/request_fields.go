package server

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Field numbers of DeltaDiscoveryRequest and DiscoveryRequest (envoy.service.discovery.v3), of a
// map's entry, and of google.rpc.Status.
const (
	asksDeltaNode        protowire.Number = 1
	asksDeltaTypeURL     protowire.Number = 2
	asksDeltaSubscribe   protowire.Number = 3
	asksDeltaUnsubscribe protowire.Number = 4
	asksDeltaHeld        protowire.Number = 5
	asksDeltaNonce       protowire.Number = 6
	asksDeltaError       protowire.Number = 7

	asksSotWVersion protowire.Number = 1
	asksSotWNode    protowire.Number = 2
	asksSotWNames   protowire.Number = 3
	asksSotWTypeURL protowire.Number = 4
	asksSotWNonce   protowire.Number = 5
	asksSotWError   protowire.Number = 6

	mapKey        protowire.Number = 1
	mapValue      protowire.Number = 2
	statusMessage protowire.Number = 2
)

// decodeDeltaField stores one field of a DeltaDiscoveryRequest, whose value begins at offset at of
// r.raw. Unknown fields are ignored. It returns an error for a malformed or too long value. An
// entry of initial_resource_versions is added to r.Held, an error sets r.Rejected.
func (r *request) decodeDeltaField(number protowire.Number, value string, at int) error {
	switch number {
	case asksDeltaNode:
		return r.readNode([]byte(value))
	case asksDeltaTypeURL:
		return storeTypeURL(&r.TypeURL, value)
	case asksDeltaSubscribe:
		return appendName(&r.Subscribe, value)
	case asksDeltaUnsubscribe:
		return appendName(&r.Unsubscribe, value)
	case asksDeltaHeld:
		return r.decodeHeld(at, at+len(value))
	case asksDeltaNonce:
		return storeText(&r.Nonce, value)
	case asksDeltaError:
		return r.decodeErrorDetail(value)
	default:
		return nil
	}
}

// decodeSotWField stores one field of a DiscoveryRequest. Unknown fields and the offset are
// ignored. It returns an error for a malformed or too long value. The field error_detail sets
// r.Rejected.
func (r *request) decodeSotWField(number protowire.Number, value string, _ int) error {
	switch number {
	case asksSotWVersion:
		return storeText(&r.Version, value)
	case asksSotWNode:
		return r.readNode([]byte(value))
	case asksSotWNames:
		return appendName(&r.Names, value)
	case asksSotWTypeURL:
		return storeTypeURL(&r.TypeURL, value)
	case asksSotWNonce:
		return storeText(&r.Nonce, value)
	case asksSotWError:
		return r.decodeErrorDetail(value)
	default:
		return nil
	}
}

// readNode decodes raw into r.node and r.extensions, in place of an earlier node, and does not keep
// raw. It returns ResourceExhausted for a node that is too long (maxFieldBytes), has too many
// elements or is nested too deep, and another error for malformed encoding.
func (r *request) readNode(raw []byte) (err error) {
	if len(raw) > maxFieldBytes {
		return status.Errorf(codes.ResourceExhausted,
			"a node of %d bytes is too long: at most %d are allowed", len(raw), maxFieldBytes)
	}
	table := new(extensionTable)
	if r.session != nil {
		table = &r.session.s.extensions
	}
	r.node, r.extensions, err = table.decodeNode(raw)
	return err
}

// decodeHeld decodes one entry of initial_resource_versions, which is r.raw[from:to], and adds it
// to r.Held. The first entry creates r.Held, which refers to r.raw. It returns an error, and adds
// nothing, for malformed encoding or invalid UTF-8.
func (r *request) decodeHeld(from, to int) error {
	key, version, err := (&message[string]{text: r.raw[:to], at: from}).readEntry()
	if err != nil {
		return err
	}
	if !utf8.ValidString(r.raw[key.from:key.to]) || !utf8.ValidString(r.raw[version.from:version.to]) {
		return errUTF8
	}
	if r.Held == nil {
		r.Held = stream.NewHoldings(r.raw, r.room)
	}
	r.Held.Add(key.from, key.to, version.from, version.to)
	return nil
}

// decodeErrorDetail decodes error_detail: it sets r.Rejected, even with an error, and r.Message to
// the message of the status, if it has one. Code and details are ignored. It returns an error for
// malformed encoding or invalid UTF-8.
func (r *request) decodeErrorDetail(value string) error {
	r.Rejected = true
	for m := newMessage(value); !m.atEnd(); {
		number, value, err := m.nextField()
		if err != nil {
			return err
		}
		if number == statusMessage {
			if err := storeText(&r.Message, value); err != nil {
				return err
			}
		}
	}
	return nil
}

var errUTF8 = errors.New("a string is not UTF-8")

// storeText stores a copy of value in to. It returns errUTF8, and stores nothing, if value is not
// valid UTF-8.
func storeText(to *string, value string) error {
	if !utf8.ValidString(value) {
		return errUTF8
	}
	*to = strings.Clone(value)
	return nil
}

// maxTypeURL bounds a type URL, because streams remember unknown ones.
const maxTypeURL = 1 << 10

// storeTypeURL stores a copy of value in to. It returns an error if value is longer than maxTypeURL
// or not valid UTF-8.
func storeTypeURL(to *string, value string) error {
	if len(value) > maxTypeURL {
		return fmt.Errorf("type_url of %d bytes is too long", len(value))
	}
	return storeText(to, value)
}

// appendName appends a resource name without copying it, so callers that keep it must copy it. It
// returns errUTF8 if value is not valid UTF-8.
func appendName(to *[]string, value string) error {
	if !utf8.ValidString(value) {
		return errUTF8
	}
	*to = append(*to, value)
	return nil
}
