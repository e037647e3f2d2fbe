package main

import (
	"context"
	"errors"
	"strings"
	"time"

	documentai "cloud.google.com/go/documentai/apiv1"
	"cloud.google.com/go/documentai/apiv1/documentaipb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

func readDocumentAI(ctx context.Context, c cell, timeout time.Duration) (string, told, error) {
	client, err := documentai.NewDocumentProcessorRESTClient(ctx, option.WithEndpoint(c.base), option.WithoutAuthentication())
	if err != nil {
		return "", told{}, err
	}
	text, err := process(ctx, client, c, timeout)
	var answer *googleapi.Error
	if errors.As(err, &answer) {
		return "", told{answer.Header.Get("Ocr-Proxy-Class"), answer.Header.Get("Ocr-Proxy-Reason")}, err
	}
	return text, told{}, err
}

func readDocumentAIOverGRPC(ctx context.Context, c cell, timeout time.Duration) (string, told, error) {
	client, err := documentai.NewDocumentProcessorClient(ctx, option.WithEndpoint(strings.TrimPrefix(c.base, "http://")), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		return "", told{}, err
	}
	var trailer metadata.MD
	text, err := process(ctx, client, c, timeout, gax.WithGRPCOptions(grpc.Trailer(&trailer)))
	return text, told{strings.Join(trailer.Get("ocr-proxy-class"), ""), strings.Join(trailer.Get("ocr-proxy-reason"), "")}, err
}

func process(ctx context.Context, client *documentai.DocumentProcessorClient, c cell, timeout time.Duration, options ...gax.CallOption) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !c.retries {
		options = append(options, gax.WithRetry(func() gax.Retryer { return nil }))
	}
	answer, err := client.ProcessDocument(ctx, &documentaipb.ProcessRequest{
		Name:   "projects/p/locations/us/processors/1",
		Source: &documentaipb.ProcessRequest_RawDocument{RawDocument: &documentaipb.RawDocument{Content: c.page, MimeType: "image/png"}},
	}, options...)
	if err != nil {
		return "", err
	}
	return answer.GetDocument().GetText(), nil
}
