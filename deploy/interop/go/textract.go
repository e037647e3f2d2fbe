package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/textract"
	"github.com/aws/aws-sdk-go-v2/service/textract/types"
)

const jobPoll = 300 * time.Millisecond

func readTextract(ctx context.Context, c cell, timeout time.Duration) (string, told, error) {
	options := textract.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(c.base),
		HTTPClient:   awshttp.NewBuildableClient().WithTimeout(timeout),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "unused", SecretAccessKey: "unused"}, nil
		}),
	}
	if !c.retries {
		options.Retryer = aws.NopRetryer{}
	} else {
		options.Retryer = retry.NewStandard() // what config.LoadDefaultConfig chooses
	}
	client := textract.New(options)
	blocks, err := textractBlocks(ctx, client, c)
	if err != nil {
		var response *awshttp.ResponseError
		if errors.As(err, &response) {
			h := response.Response.Header
			return "", told{h.Get("Ocr-Proxy-Class"), h.Get("Ocr-Proxy-Reason")}, err
		}
		return "", told{}, err
	}
	var text strings.Builder
	for _, block := range blocks {
		if block.BlockType == types.BlockTypeLine {
			text.WriteString(aws.ToString(block.Text) + " ")
		}
	}
	return text.String(), told{}, nil
}

func textractBlocks(ctx context.Context, client *textract.Client, c cell) ([]types.Block, error) {
	if !strings.HasPrefix(c.scenario, "job") {
		answer, err := client.DetectDocumentText(ctx, &textract.DetectDocumentTextInput{Document: &types.Document{Bytes: c.page}})
		if err != nil {
			return nil, err
		}
		return answer.Blocks, nil
	}
	job, err := client.StartDocumentTextDetection(ctx, &textract.StartDocumentTextDetectionInput{
		DocumentLocation: &types.DocumentLocation{S3Object: &types.S3Object{Bucket: aws.String("scans"), Name: aws.String("lease.pdf")}},
	})
	if err != nil {
		return nil, err
	}
	for {
		answer, err := client.GetDocumentTextDetection(ctx, &textract.GetDocumentTextDetectionInput{JobId: job.JobId})
		if err != nil {
			return nil, err
		}
		if answer.JobStatus != types.JobStatusInProgress {
			return answer.Blocks, nil
		}
		time.Sleep(jobPoll)
	}
}
