package server

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is an encoded message that is being decoded, from a string if the values are kept, or from
// a buffer.
type message[T string | []byte] struct {
	text T
	at   int
}

// newMessage returns a decoder at the beginning of text, an encoded message.
func newMessage[T string | []byte](text T) *message[T] { return &message[T]{text: text} }

// atEnd reports whether all of the message is decoded.
func (m *message[T]) atEnd() bool { return m.at == len(m.text) }

// nextField reads the next field, and returns the number and value of a string or message; value
// shares the memory of m.text. A field of another wire type, which no request has, is skipped and
// returned with number 0. It returns an error for malformed encoding. At the end of the message it
// must not be called.
func (m *message[T]) nextField() (number protowire.Number, value T, err error) {
	if number, value, ok := m.nextShortField(); ok {
		return number, value, nil
	}
	key, err := m.readVarint()
	if err != nil {
		return 0, value, err
	}
	number, kind := protowire.DecodeTag(key)
	if number < protowire.MinValidNumber {
		return 0, value, errors.New("a field has no number")
	}
	if kind != protowire.BytesType {
		n := protowire.ConsumeFieldValue(number, kind, []byte(m.text[m.at:]))
		if n < 0 {
			return 0, value, protowire.ParseError(n)
		}
		m.at += n
		return 0, value, nil
	}
	length, err := m.readVarint()
	if err != nil {
		return 0, value, err
	}
	if length > uint64(len(m.text)-m.at) {
		return 0, value, errors.New("a field is longer than the message")
	}
	value = m.text[m.at : m.at+int(length)]
	m.at += int(length)
	return number, value, nil
}

// nextShortField reads the next field like nextField if it is a string or message of less than 128
// bytes with a number of at most 15, as are nearly all names and versions. If not, or if the field is
// malformed, ok is false and nothing is read.
func (m *message[T]) nextShortField() (number protowire.Number, value T, ok bool) {
	from := m.at + 2
	if from > len(m.text) {
		return 0, value, false
	}
	key, length := m.text[m.at], m.text[m.at+1]
	to := from + int(length)
	if key&0x87 != byte(protowire.BytesType) || key < 1<<3 || length > 0x7f || to > len(m.text) {
		return 0, value, false
	}
	m.at = to
	return protowire.Number(key >> 3), m.text[from:to], true
}

// readVarint reads a varint at the present position and moves behind it. It returns an error if the
// message ends before it does, or it has more than ten bytes.
func (m *message[T]) readVarint() (v uint64, err error) {
	for shift := 0; shift < 64; shift += 7 {
		if m.atEnd() {
			break
		}
		b := m.text[m.at]
		m.at++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, errors.New("a varint is not terminated")
}

// span is the position of a value in the text of a message.
type span struct{ from, to int }

// readEntry reads a map entry, which ends at the end of m, and returns the positions of its key and
// value in m.text. Missing ones are empty. It returns an error for malformed encoding.
func (m *message[T]) readEntry() (key, value span, err error) {
	for !m.atEnd() {
		number, field, err := m.nextField()
		if err != nil {
			return key, value, err
		}
		switch number {
		case mapKey:
			key = span{m.at - len(field), m.at}
		case mapValue:
			value = span{m.at - len(field), m.at}
		}
	}
	return key, value, nil
}
