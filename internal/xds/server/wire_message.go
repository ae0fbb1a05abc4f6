package server

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is an encoded message that is being decoded.
type message struct {
	text string
	at   int
}

// newMessage returns a decoder at the beginning of text, an encoded message.
func newMessage(text string) *message { return &message{text: text} }

// atEnd reports whether all of the message is decoded.
func (m *message) atEnd() bool { return m.at == len(m.text) }

// nextField reads the next field, and returns the number and value of a string or message; value
// shares the memory of m.text. A field of another wire type, which no request has, is skipped and
// returned with number 0. It returns an error for malformed encoding. At the end of the message it
// must not be called.
func (m *message) nextField() (number protowire.Number, value string, err error) {
	key, err := m.readVarint()
	if err != nil {
		return 0, "", err
	}
	number, kind := protowire.DecodeTag(key)
	if number < protowire.MinValidNumber {
		return 0, "", errors.New("a field has no number")
	}
	if kind != protowire.BytesType {
		n := protowire.ConsumeFieldValue(number, kind, []byte(m.text[m.at:]))
		if n < 0 {
			return 0, "", protowire.ParseError(n)
		}
		m.at += n
		return 0, "", nil
	}
	length, err := m.readVarint()
	if err != nil {
		return 0, "", err
	}
	if length > uint64(len(m.text)-m.at) {
		return 0, "", errors.New("a field is longer than the message")
	}
	value = m.text[m.at : m.at+int(length)]
	m.at += int(length)
	return number, value, nil
}

// readVarint reads a varint at the present position and moves behind it. It returns an error if the
// message ends before it does, or it has more than ten bytes.
func (m *message) readVarint() (v uint64, err error) {
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
