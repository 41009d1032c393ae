"""An encoder-decoder: the encoder's states are the memory that the decoder's cross attention looks at."""

from torch import Tensor, nn

from headway.models.decoder import Decoder
from headway.models.encoder import Encoder
from headway.nn.masks import real_tokens


class EncoderDecoder(nn.Module):
    def __init__(self, encoder: Encoder, decoder: Decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, source: Tensor, target: Tensor, source_lengths: Tensor | None = None) -> Tensor:
        """(B, S) and (B, T) tokens to (B, T, V) scores of the target token that comes next."""
        memory = self.encoder(source, source_lengths)
        real = None if source_lengths is None else real_tokens(source_lengths, source.shape[1])
        return self.decoder(target, memory, real)
