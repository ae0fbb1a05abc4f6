package server

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// incoming is a request as it arrived. The node is nil if the request has none. raw is the whole
// message. Neither node nor raw may be kept.
type incoming struct {
	stream.Request
	node *corev3.Node
	raw  string
}

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

// A request has at most nameLists lists of names, each within the limit of the stream, and at most
// otherFields other fields. Six of the other fields are known.
const (
	nameLists   = 3
	otherFields = 100
)

// nextRequest waits for a request that is not the stream's first and returns it. It keeps no place
// of the admission.
func (x *session) nextRequest() (*incoming, error) {
	in, leave, err := x.receiveRequest(smallMessage)
	leave()
	return in, err
}

// receiveRequest waits for a request, counts it and returns it. A request longer than free bytes is
// decoded while it holds a place of the admission, which is kept until leave is called; free is 0
// for first requests. leave is never nil, even with an error. A message that gRPC itself refuses as
// too long is recorded as a refusal (recordRefusal).
func (x *session) receiveRequest(free int) (in *incoming, leave func(), err error) {
	r := &request{mode: x.mode, session: x, free: free, leave: func() {}}
	if err := x.st.RecvMsg(r); err != nil {
		if text := status.Convert(err); text.Code() == codes.ResourceExhausted {
			// In plain text gRPC refuses long messages. It has already ended the stream with its
			// own text.
			x.recordRefusal(status.Errorf(codes.ResourceExhausted, "%s (%s)", text.Message(), requestLimit))
		}
		return nil, r.leave, err
	}
	x.link.creditDecoded(r.size)
	if r.err != nil {
		return nil, r.leave, r.err
	}
	x.s.metrics.Received(r.size)
	return &r.incoming, r.leave, nil
}

// request is a request that the codec decodes. A request of a proxy with state has some ten
// thousand resource names, so it is decoded by hand. All names are parts of one string, and lists
// are allocated with their final capacity.
type request struct {
	incoming
	mode    stream.Mode
	room    int      // number of entries in initial_resource_versions
	session *session // if nil, the request is not bounded
	free    int      // the size up to which it needs no place
	size    int
	leave   func() // releases the place
	err     error  // a gRPC status; the request is refused
}

// decodeData decodes a message that has arrived in full. A message longer than r.free is bounded by
// the admission (readBounded). A ResourceExhausted error is stored in r.err and nil returned,
// because gRPC would replace it by codes.Internal. Other errors are returned.
func (r *request) decodeData(data mem.BufferSlice) (err error) {
	if r.size = data.Len(); r.session != nil && r.size > r.free {
		err = r.readBounded(data)
	} else {
		err = r.decodeMessage(data)
	}
	if err != nil && status.Code(err) == codes.ResourceExhausted {
		r.err, err = err, nil
	}
	return err
}

// readBounded decodes a message while it holds a place of the admission, which r.leave releases. It
// returns ResourceExhausted for a message that is too long or has too many fields, before it waits.
// The first message of a stream also waits for the rate. A refusal by the admission is stored in
// r.err, not returned. It is not inlined, so it needs no stack on idle streams.
//
//go:noinline
func (r *request) readBounded(data mem.BufferSlice) (err error) {
	x := r.session
	if r.free == 0 {
		x.markArrived()
	}
	if most := x.maxRequest(); r.size > most {
		return errTooLong(r.size, most)
	}
	if err := r.checkFields(data); err != nil {
		return err
	}
	if r.free == 0 {
		if r.err = x.admissionFor().waitForRate(x.ctx); r.err != nil {
			return nil
		}
	}
	leave, refused := x.admissionFor().
		decodeInPlace(x.ctx, r.size, x.smallRequest(), func() { err = r.decodeMessage(data) })
	if refused != nil {
		r.err = refused
		return nil
	}
	r.leave = leave
	return err
}

// decodeMessage copies a message into r.raw and decodes it into r. The error is ResourceExhausted
// for too many names or elements; otherwise it describes the malformed field.
func (r *request) decodeMessage(data mem.BufferSlice) error {
	var text strings.Builder
	text.Grow(data.Len())
	for _, part := range data {
		text.Write(part.ReadOnlyData())
	}
	r.raw = text.String()
	switch err := r.decodeFields(); {
	case status.Code(err) == codes.ResourceExhausted:
		return err
	case err != nil:
		return fmt.Errorf("malformed discovery request: %w", err)
	}
	return nil
}

// decodeFields decodes r.raw into the fields of r for its protocol variant. It returns
// ResourceExhausted for too many names, before it decodes them, and an error for malformed
// encoding.
func (r *request) decodeFields() error {
	field, names := r.decodeSotWField, asksSotWNames
	if r.mode == stream.Delta {
		field, names = r.decodeDeltaField, asksDeltaSubscribe
	}
	many := map[protowire.Number]int{}
	if len(r.raw) > 4<<10 {
		many = countFields(r.raw)
	}
	if err := r.checkNames(many); err != nil {
		return err
	}
	if n := many[names]; n > 0 {
		list := make([]string, 0, n)
		if r.mode == stream.Delta {
			r.Subscribe = list
		} else {
			r.Names = list
		}
	}
	r.room = many[asksDeltaHeld]
	for m := newMessage(r.raw); !m.atEnd(); {
		number, value, err := m.nextField()
		if err == nil {
			err = field(number, value, m.at-len(value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkNames returns ResourceExhausted if a list of names is longer than a stream may subscribe to.
// many has the number of fields by number, before decoding. Without a session there is no limit.
func (r *request) checkNames(many map[protowire.Number]int) error {
	if r.session == nil {
		return nil
	}
	limit := r.session.s.pusher.NameLimits().Names
	lists := []protowire.Number{asksSotWNames}
	if r.mode == stream.Delta {
		lists = []protowire.Number{asksDeltaSubscribe, asksDeltaUnsubscribe, asksDeltaHeld}
	}
	for _, list := range lists {
		if many[list] > limit {
			return status.Errorf(codes.ResourceExhausted,
				"a request has %d resource names: at most %d are allowed (MESHPILOT_XDS_MAX_NAMES)", many[list], limit)
		}
	}
	return nil
}

// countFields returns the number of string and message fields by field number, up to the first
// malformed field. Fields of other wire types are counted as number 0.
func countFields(text string) map[protowire.Number]int {
	counts, last, n := map[protowire.Number]int{}, protowire.Number(0), 0
	for m := newMessage(text); !m.atEnd(); {
		number, _, err := m.nextField()
		if err != nil {
			break
		}
		if number != last {
			counts[last] += n
			last, n = number, 0
		}
		n++
	}
	counts[last] += n
	return counts
}

// decodeDeltaField stores one field of a DeltaDiscoveryRequest, whose value begins at offset at of
// r.raw. Unknown fields are ignored. It returns an error for a malformed or too long value. An
// entry of initial_resource_versions is added to r.Held, an error sets r.Rejected.
func (r *request) decodeDeltaField(number protowire.Number, value string, at int) error {
	switch number {
	case asksDeltaNode:
		return r.readNode(value)
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
		return r.readNode(value)
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

// checkFields returns ResourceExhausted for a request with too many or too long fields, without
// decoding it. The text of a NACK may be of any length. Requests of at most maxFieldBytes are not
// checked.
func (r *request) checkFields(data mem.BufferSlice) error {
	if data.Len() <= maxFieldBytes {
		return nil
	}
	refusal := asksSotWError // Envoy's error text, which is truncated when it is stored
	if r.mode == stream.Delta {
		refusal = asksDeltaError
	}
	return checkFields(data, nameLists*r.session.s.pusher.NameLimits().Names+otherFields, refusal)
}

// readNode decodes value into r.node. It returns ResourceExhausted for a node that is longer than
// maxFieldBytes, has too many elements or is nested too deep, and another error for malformed
// encoding.
func (r *request) readNode(value string) error {
	if len(value) > maxFieldBytes {
		return status.Errorf(codes.ResourceExhausted,
			"a node of %d bytes is too long: at most %d are allowed", len(value), maxFieldBytes)
	}
	raw := []byte(value)
	r.node = new(corev3.Node)
	if err := checkElements(r.node.ProtoReflect().Descriptor(), raw); err != nil {
		return err
	}
	return proto.Unmarshal(raw, r.node)
}

// decodeHeld decodes one entry of initial_resource_versions, which is r.raw[from:to], and adds it
// to r.Held. It returns an error for malformed encoding or invalid UTF-8.
func (r *request) decodeHeld(from, to int) error {
	var key, version struct{ from, to int }
	for m := (&message{text: r.raw[:to], at: from}); !m.atEnd(); {
		number, value, err := m.nextField()
		if err != nil {
			return err
		}
		switch number {
		case mapKey:
			key.from, key.to = m.at-len(value), m.at
		case mapValue:
			version.from, version.to = m.at-len(value), m.at
		}
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

// decodeErrorDetail decodes error_detail: it sets r.Rejected, and r.Message to the message of the
// status. Code and details are ignored. It returns an error for malformed encoding or invalid
// UTF-8.
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
