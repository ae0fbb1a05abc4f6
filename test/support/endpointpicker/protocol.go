package endpointpicker

import (
	"errors"
	"io"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Process answers the messages of one request and its response, in the body mode FULL_DUPLEX_STREAMED.
func (p *Server) Process(stream procv3.ExternalProcessor_ProcessServer) error {
	var pick string
	var body []byte
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var answers []*procv3.ProcessingResponse
		switch m := message.GetRequest().(type) {
		case *procv3.ProcessingRequest_RequestHeaders:
			pick = p.choose(m.RequestHeaders)
			if m.RequestHeaders.GetEndOfStream() {
				answers = pickAnswers(pick, nil, true)
			}
		case *procv3.ProcessingRequest_RequestBody:
			if body = append(body, m.RequestBody.GetBody()...); m.RequestBody.GetEndOfStream() {
				answers = pickAnswers(pick, body, false)
				p.recordBody(string(body))
			}
		case *procv3.ProcessingRequest_ResponseHeaders:
			metadata := message.GetMetadataContext().GetFilterMetadata()["envoy.lb"].GetFields()
			served := metadata["x-gateway-destination-endpoint-served"].GetStringValue()
			answers = []*procv3.ProcessingResponse{{Response: &procv3.ProcessingResponse_ResponseHeaders{
				ResponseHeaders: &procv3.HeadersResponse{
					Response: &procv3.CommonResponse{HeaderMutation: setHeader("x-served", served)},
				},
			}}}
		case *procv3.ProcessingRequest_ResponseBody:
			answers = []*procv3.ProcessingResponse{{Response: &procv3.ProcessingResponse_ResponseBody{
				ResponseBody: bodyAnswer(m.ResponseBody.GetBody(), m.ResponseBody.GetEndOfStream()),
			}}}
		case *procv3.ProcessingRequest_RequestTrailers:
			answers = []*procv3.ProcessingResponse{{Response: &procv3.ProcessingResponse_RequestTrailers{
				RequestTrailers: &procv3.TrailersResponse{},
			}}}
		case *procv3.ProcessingRequest_ResponseTrailers:
			answers = []*procv3.ProcessingResponse{{Response: &procv3.ProcessingResponse_ResponseTrailers{
				ResponseTrailers: &procv3.TrailersResponse{},
			}}}
		}
		for _, a := range answers {
			if p.isSilent() {
				continue
			}
			if err := stream.Send(a); err != nil {
				return err
			}
		}
	}
}

func headerOf(h *procv3.HttpHeaders, name string) string {
	for _, v := range h.GetHeaders().GetHeaders() {
		if v.GetKey() == name {
			return string(v.GetRawValue())
		}
	}
	return ""
}

// pickAnswers returns the answers to a request: the endpoints in a header and in the metadata, as
// the protocol requires, and the body unchanged. Without endpoints the picker leaves the choice to
// the gateway.
func pickAnswers(pick string, body []byte, bodyless bool) []*procv3.ProcessingResponse {
	headers := &procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &procv3.HeadersResponse{Response: &procv3.CommonResponse{ClearRouteCache: true}},
	}}
	if pick != "" {
		headers.GetRequestHeaders().Response.HeaderMutation = setHeader("x-gateway-destination-endpoint", pick)
		chosen, err := structpb.NewStruct(map[string]any{"envoy.lb": map[string]any{"x-gateway-destination-endpoint": pick}})
		if err != nil {
			panic(err)
		}
		headers.DynamicMetadata = chosen
	}
	if bodyless {
		return []*procv3.ProcessingResponse{headers}
	}
	unchanged := &procv3.ProcessingResponse_RequestBody{RequestBody: bodyAnswer(body, true)}
	return []*procv3.ProcessingResponse{headers, {Response: unchanged}}
}

func setHeader(name, value string) *procv3.HeaderMutation {
	return &procv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{{
		Header: &corev3.HeaderValue{Key: name, RawValue: []byte(value)},
	}}}
}

func bodyAnswer(body []byte, end bool) *procv3.BodyResponse {
	return &procv3.BodyResponse{Response: &procv3.CommonResponse{BodyMutation: &procv3.BodyMutation{
		Mutation: &procv3.BodyMutation_StreamedResponse{
			StreamedResponse: &procv3.StreamedBodyResponse{Body: body, EndOfStream: end},
		},
	}}}
}
