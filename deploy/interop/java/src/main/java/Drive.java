import com.azure.ai.documentintelligence.DocumentIntelligenceClientBuilder;
import com.azure.ai.documentintelligence.models.AnalyzeDocumentOptions;
import com.azure.core.credential.AzureKeyCredential;
import com.azure.core.exception.HttpResponseException;
import com.azure.core.http.HttpHeaderName;
import com.azure.core.http.netty.NettyAsyncHttpClientBuilder;
import com.azure.core.http.policy.FixedDelayOptions;
import com.azure.core.http.policy.RetryOptions;
import com.azure.core.util.CoreUtils;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.awscore.exception.AwsServiceException;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.core.util.VersionInfo;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.retries.DefaultRetryStrategy;
import software.amazon.awssdk.services.textract.TextractClient;
import software.amazon.awssdk.services.textract.model.Block;
import software.amazon.awssdk.services.textract.model.BlockType;
import software.amazon.awssdk.services.textract.model.JobStatus;

/**
 * Reads one page with one Java client through the proxy: Drive CLIENT SCENARIO on|off BASE_URL PAGE. Prints one line of JSON,
 * as drive.py does.
 */
public final class Drive {
  private static final Duration PATIENCE = Duration.ofSeconds(60); // how long a call waits for its answer
  private static final Duration HURRY = Duration.ofMillis(1500); // in the scenario hangup the answer takes longer
  private static final Duration PAUSE = Duration.ofMillis(3500); // until a worker without retries calls again

  private final String scenario;
  private final boolean retries;
  private final String base;
  private final byte[] page;

  private Drive(String scenario, boolean retries, String base, byte[] page) {
    this.scenario = scenario;
    this.retries = retries;
    this.base = base;
    this.page = page;
  }

  private String textract(Duration timeout) throws InterruptedException {
    try (TextractClient client =
        TextractClient.builder()
            .endpointOverride(URI.create(base))
            .region(Region.US_EAST_1)
            .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("unused", "unused")))
            .overrideConfiguration(
                o -> {
                  o.apiCallAttemptTimeout(timeout);
                  if (!retries) {
                    o.retryStrategy(DefaultRetryStrategy.doNotRetry());
                  }
                })
            .build()) {
      List<Block> blocks =
          scenario.startsWith("job")
              ? job(client)
              : client.detectDocumentText(r -> r.document(d -> d.bytes(SdkBytes.fromByteArray(page)))).blocks();
      return blocks.stream().filter(b -> b.blockType() == BlockType.LINE).map(Block::text).collect(Collectors.joining(" "));
    }
  }

  private static List<Block> job(TextractClient client) throws InterruptedException {
    String id =
        client
            .startDocumentTextDetection(r -> r.documentLocation(l -> l.s3Object(o -> o.bucket("scans").name("lease.pdf"))))
            .jobId();
    while (true) {
      var answer = client.getDocumentTextDetection(r -> r.jobId(id));
      if (answer.jobStatus() != JobStatus.IN_PROGRESS) {
        return answer.blocks();
      }
      Thread.sleep(300);
    }
  }

  private String documentIntelligence(Duration timeout) {
    var builder =
        new DocumentIntelligenceClientBuilder()
            .endpoint(base)
            .credential(new AzureKeyCredential("unused"))
            .httpClient(new NettyAsyncHttpClientBuilder().responseTimeout(timeout).build());
    if (!retries) {
      builder.retryOptions(new RetryOptions(new FixedDelayOptions(0, Duration.ofMillis(1))));
    }
    var poller = builder.buildClient().beginAnalyzeDocument("prebuilt-read", new AnalyzeDocumentOptions(page));
    return poller.setPollInterval(Duration.ofMillis(300)).getFinalResult().getContent();
  }

  private String read(String client, Duration timeout) throws InterruptedException {
    return switch (client) {
      case "java-textract" -> textract(timeout);
      case "java-document-intelligence" -> documentIntelligence(timeout);
      default -> throw new IllegalArgumentException("there is no client " + client);
    };
  }

  private static String version(String client) {
    return client.equals("java-textract")
        ? VersionInfo.SDK_VERSION
        : CoreUtils.getProperties("azure-ai-documentintelligence.properties").getOrDefault("version", "?");
  }

  /** A header of the answer behind an exception; empty where there is none. */
  private static String header(Exception error, String name) {
    String value = null;
    if (error instanceof AwsServiceException aws && aws.awsErrorDetails() != null) {
      value = aws.awsErrorDetails().sdkHttpResponse().firstMatchingHeader(name).orElse(null);
    } else if (error instanceof HttpResponseException azure && azure.getResponse() != null) {
      value = azure.getResponse().getHeaders().getValue(HttpHeaderName.fromString(name));
    }
    return value == null ? "" : value;
  }

  private static String quoted(String text) {
    String plain = text == null ? "" : text.substring(0, Math.min(text.length(), 200));
    return '"' + plain.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ") + '"';
  }

  public static void main(String[] args) throws Exception {
    String client = args[0];
    boolean retries = args[2].equals("on");
    Drive drive = new Drive(args[1], retries, args[3], Files.readAllBytes(Path.of(args[4])));
    String result = "error";
    String exception = "";
    String message = "";
    String told = ",\"class\":\"\",\"reason\":\"\"";
    int calls = 0;
    List<Duration> timeouts = !args[1].equals("hangup") ? List.of(PATIENCE) : retries ? List.of(HURRY) : List.of(HURRY, PATIENCE);
    for (Duration timeout : timeouts) {
      if (calls++ > 0) {
        Thread.sleep(PAUSE.toMillis());
      }
      try {
        result = drive.read(client, timeout).isBlank() ? "empty" : "ok";
        break;
      } catch (RuntimeException error) {
        exception = error.getClass().getSimpleName();
        message = error.getMessage();
        told = ",\"class\":" + quoted(header(error, "Ocr-Proxy-Class")) + ",\"reason\":" + quoted(header(error, "Ocr-Proxy-Reason"));
      }
    }
    System.out.printf(
        "{\"client\":%s,\"version\":%s,\"scenario\":%s,\"retries\":%s,\"result\":%s,\"exception\":%s,\"message\":%s,\"calls\":%d%s}%n",
        quoted(client), quoted(version(client)), quoted(args[1]), quoted(args[2]), quoted(result), quoted(exception), quoted(message), calls, told);
    System.exit(0);
  }
}
