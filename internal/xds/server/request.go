package server

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// incoming is a request as it arrived. The node is nil if the request has none; its extensions are
// left out, and their names are in extensions. raw is the whole message, or "" if its names and
// versions are known (decodeKnown). Neither node nor raw may be kept.
type incoming struct {
	stream.Request
	node       *corev3.Node
	extensions []string
	raw        string
}

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
// for first requests. leave is never nil, even with an error; in is then nil and nothing is
// counted. A message that gRPC itself refuses as too long is recorded as a refusal (recordRefusal).
func (x *session) receiveRequest(free int) (in *incoming, leave func(), err error) {
	r := &request{mode: x.mode, session: x, free: free, leave: func() {}}
	x.link.beginReceive()
	err = x.st.RecvMsg(r)
	x.link.endReceive()
	if err != nil {
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
	x.link.markReceived(r.size)
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

// decodeMessage decodes a message into r. It copies the message into r.raw, unless all its names
// and versions are known (decodeKnown). The error is ResourceExhausted for too many names or
// elements; otherwise it describes the malformed field.
func (r *request) decodeMessage(data mem.BufferSlice) error {
	if r.decodeKnown(data) {
		return nil
	}
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

// decodeFields decodes r.raw into the fields of r for its protocol variant. In a message of more
// than 4 KiB it first counts the names, and returns ResourceExhausted for too many (checkNames). It
// stops at the first field that is malformed or too long, and returns its error; the fields before
// it are then set.
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
